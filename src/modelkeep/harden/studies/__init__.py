"""The tables and figures of thesis 004 about robustness, made again."""
