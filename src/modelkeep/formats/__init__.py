"""The files that a model is read from and written to; none of them is a pickle."""
