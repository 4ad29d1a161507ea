"""Saha 2020, Towards Robust Deep Learning Systems: The Plasticity Hypothesis."""
