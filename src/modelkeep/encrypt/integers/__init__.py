"""Integers: networks that compute modulo 2^k, with tables for what is not a polynomial (Saha2020, section 3.4)."""
