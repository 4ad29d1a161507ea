"""Attacks that look for the smallest change of an input that changes the answer."""
