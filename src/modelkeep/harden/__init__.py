"""Hardening: what makes a model hold against attacks, each scored by an attack that knows the defence."""
