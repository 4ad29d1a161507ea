"""CKKS: approximate numbers under encryption (Cheon2017), by SEAL's own calls."""
