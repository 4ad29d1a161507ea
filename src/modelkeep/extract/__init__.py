"""Extract: steal a model through its answers, as a thief would, and measure how far that goes."""
