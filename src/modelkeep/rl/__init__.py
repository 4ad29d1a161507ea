"""Reinforcement learning: environments, agents that are written to be read, and the one loop that they learn in."""
