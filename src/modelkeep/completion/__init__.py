"""Model completion: how much training it takes to get the missing part of a model back (paper 000)."""
