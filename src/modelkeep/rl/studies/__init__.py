"""Studies of the agents themselves: how well and how fast they learn."""
