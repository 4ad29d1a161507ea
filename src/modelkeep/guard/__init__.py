"""Guard: serve a model so that a thief gets little, and every user the same answer for ever (ModelGuard)."""
