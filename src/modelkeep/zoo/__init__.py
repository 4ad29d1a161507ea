"""Data sets, architectures and models with trained weights."""
