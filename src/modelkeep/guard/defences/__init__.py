"""The defences of ModelGuard (paper 003), each a small function of a prediction."""
