"""`modelkeep govern demo`: Alice and Bob own one model, as two processes on this machine."""

from __future__ import annotations


def demo() -> None:
    """Show it."""
