"""Encrypt: run and train a model on data that it cannot see (Saha2020, chapter 3)."""
