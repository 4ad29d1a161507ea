"""Govern: one model, several owners; each holds a piece, and every pass needs the consent of them all."""
