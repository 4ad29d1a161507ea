"""Attacks on a model that one can only ask: train a proxy on its answers, attack that, and carry the inputs over."""
