"""Jobs: commands that run as processes of their own, and what is known of them after a restart."""
