"""Functional encryption: a server learns the inner products that an authority allows, and nothing else of the input."""
