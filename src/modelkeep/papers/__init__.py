"""The papers' tables and figures, one folder per paper, and the bibliography."""
