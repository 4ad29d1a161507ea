"""Channel: how the words of one party reach the others; here, within one process."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from modelkeep.encrypt.shares.traffic import Traffic


class Channel(Protocol):
    """Moves the words of the parties that are here, `(here, n)`."""

    traffic: Traffic

    def gather(self, words: Tensor) -> Tensor:
        """The words of all three parties, `(3, n)`, at each of them."""

    def collect(self, words: Tensor, at: int) -> Tensor | None:
        """The words of all three parties at one of them; None at the others."""

    def take_dealt(self) -> Tensor:
        """What the dealer sent for the next pass, `(n,)`; only the last party gets something."""


class MemoryChannel:
    """All three parties are here: nothing moves, everything is counted."""

    def __init__(self) -> None:
        self.traffic = Traffic()
        self._dealt: list[Tensor] = []

    def gather(self, words: Tensor) -> Tensor:
        """The words as they are."""
        self.traffic.count_opening(words.shape[1])
        return words

    def collect(self, words: Tensor, at: int) -> Tensor:
        """The words as they are."""
        self.traffic.count_reveal(words.shape[1])
        return words

    def deal(self, words: Tensor) -> None:
        """Put what the dealer sends for a pass."""
        self.traffic.dealt += words.nbytes
        self._dealt.append(words)

    def take_dealt(self) -> Tensor:
        """What the dealer sent for the next pass."""
        return self._dealt.pop(0)
