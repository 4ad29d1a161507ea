"""Universal perturbations: one change that moves every input to a class."""
