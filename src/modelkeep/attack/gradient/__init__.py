"""Attacks that climb a loss inside a ball, by its gradient at the input."""
