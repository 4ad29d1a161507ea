"""Shares: three parties compute on numbers that no two of them can read (Martic2018, section 2.2)."""
