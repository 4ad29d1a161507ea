"""From influence to meaning: what the units that matter stand for (thesis 002, section 3.3)."""
