"""What the parties agree on before anything runs: the agreement, its terms, and the passes that it allows."""
