"""Martic et al. 2018, Scaling Shared Model Governance via Model Splitting."""
