"""Certify: predictions that provably cannot be changed by a small perturbation (thesis 002, chapters 6 and 7)."""
