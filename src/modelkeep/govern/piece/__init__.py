"""What one party holds of the model: its pieces, their files and checkpoints, and its data."""
