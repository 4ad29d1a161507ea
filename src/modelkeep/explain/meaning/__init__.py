"""From influence to meaning: what the units that matter stand for (Leino2022, section 3.3)."""
