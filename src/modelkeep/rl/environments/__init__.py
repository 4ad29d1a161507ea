"""The games: MinAtar, the Arcade Learning Environment and ViZDoom, each many copies at a time."""
