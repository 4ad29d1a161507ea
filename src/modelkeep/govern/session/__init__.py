"""One pass through a governed model: ask, consent, begin, carry, prepare, commit."""
