"""IMPALA with population-based training, written to be read."""
