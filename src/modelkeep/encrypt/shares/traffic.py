"""Traffic: the rounds and bytes of a computation on shares, counted where they cross."""

from __future__ import annotations

from dataclasses import dataclass

WORD_BYTES = 8


@dataclass
class Traffic:
    """What the three parties and the dealer sent, payload only: no header and no encryption.

    `rounds` are times at which the parties wait for each other; `opened` and `revealed` are the bytes that they sent in
    all, and `dealt` are those that the dealer sent.
    """

    rounds: int = 0
    opened: int = 0
    revealed: int = 0
    dealt: int = 0

    @property
    def bytes(self) -> int:
        """All bytes."""
        return self.opened + self.revealed + self.dealt

    def count_opening(self, words: int) -> None:
        """Each of three parties sends its words to two others."""
        self.rounds += 1
        self.opened += 6 * words * WORD_BYTES

    def count_reveal(self, words: int) -> None:
        """Two parties send their words to the third."""
        self.rounds += 1
        self.revealed += 2 * words * WORD_BYTES
