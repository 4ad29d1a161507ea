"""Attacks that see only the scores or the label of an answer."""
