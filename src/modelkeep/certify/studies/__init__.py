"""The tables and figures of thesis 002 about certification, made again."""
