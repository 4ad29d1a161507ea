"""Leino 2022, Identifying, Analyzing, and Addressing Weaknesses in Deep Networks."""
