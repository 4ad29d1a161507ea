"""Attacks on texts: they exchange words, because a token id has no gradient and no small change."""
