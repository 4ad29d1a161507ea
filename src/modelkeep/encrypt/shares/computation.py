"""Computation: what can be done with shared numbers, written once for the parties and for their dealer.

A number x is the sum of three shares modulo 2^bits, one per party. A program is a function of a `Computation`. The
three parties run it on their shares (`Parties`), and the dealer runs the same program without any share (`Dealer`): it
follows the shapes and gives out the correlated randomness that the parties will need, in the same order.

Products follow Beaver1991. The parties open E = X - A, where A is a random mask of which the dealer knows the sum and
each party a share. With F = Y - B and shares of AB:

    XY = EF + EB + AF + AB.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from modelkeep.core.errors import InputError
from modelkeep.encrypt.shares.ring import ShareRing

PARTIES = 3


@dataclass(frozen=True, eq=False)
class Shared:
    """A secret tensor: `words` are the shares of the parties that are here, `(here, *shape)`.

    `fraction` is the number of its fractional bits. Division by 2^k only raises it: no word changes.
    """

    words: Tensor
    fraction: int
    ring: ShareRing

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the secret."""
        return tuple(self.words.shape[1:])

    def __repr__(self) -> str:
        return f"Shared(shape={self.shape}, fraction={self.fraction})"

    def __add__(self, other: Shared) -> Shared:
        self._require_same_fraction(other)
        return self._with(self.words + other.words)

    def __sub__(self, other: Shared) -> Shared:
        self._require_same_fraction(other)
        return self._with(self.words - other.words)

    def times(self, factor: int) -> Shared:
        """The secret times a public integer."""
        return self._with(self.words * factor)

    def divide(self, halvings: int) -> Shared:
        """The secret divided by 2^halvings."""
        return replace(self, fraction=self.fraction + halvings)

    def sum_rows(self) -> Shared:
        """The sum over the first axis of the secret."""
        return self._with(self.words.sum(dim=1))

    def with_fraction(self, fraction: int) -> Shared:
        """The same secret with more fractional bits."""
        if fraction < self.fraction:
            raise InputError(f"Fractional bits are taken away by `truncate`: {self.fraction} to {fraction}.")
        return replace(self, words=self.ring.shift_left(self.words, fraction - self.fraction), fraction=fraction)

    def _with(self, words: Tensor) -> Shared:
        return replace(self, words=self.ring.reduce(words))

    def _require_same_fraction(self, other: Shared) -> None:
        if self.fraction != other.fraction:
            raise InputError(f"Sums need the same fraction. Got {self.fraction} and {other.fraction} bits.")


@dataclass(frozen=True, eq=False)
class Masked:
    """A secret X with its mask A: the public `opened` is X - A, and `mask` holds shares of A, `(here, *shape)`.

    A mask belongs to one secret. The same secret may take part in many products; the mask of another secret must be
    another one, or the difference of the two would be public.
    """

    opened: Tensor
    mask: Tensor
    fraction: int

    @property
    def T(self) -> Masked:  # noqa: N802  (as torch has it)
        """The transposed matrix with the transposed mask: nothing is opened for it."""
        return replace(self, opened=self.opened.T, mask=self.mask.mT)

    def __repr__(self) -> str:
        return f"Masked(shape={tuple(self.opened.shape)}, fraction={self.fraction})"


class Computation(ABC):
    """The operations on shared numbers. `ring` is where they live."""

    ring: ShareRing

    @abstractmethod
    def share(self, owner: int, shape: Sequence[int], values: Tensor | None = None) -> Shared:
        """Share the owner's values; the others leave them away. No byte crosses: the others' shares are streams."""

    @abstractmethod
    def mask(self, *secrets: Shared) -> tuple[Masked, ...]:
        """Open each secret less a fresh mask, all in one round."""

    @abstractmethod
    def matmul(self, x: Masked, y: Masked) -> Shared:
        """The product of two matrices; its fraction is the sum of theirs. Local, with what the dealer gave."""

    @abstractmethod
    def multiply(self, x: Masked, y: Masked) -> Shared:
        """The product number by number."""

    @abstractmethod
    def square(self, x: Masked) -> Shared:
        """The square of each number."""

    @abstractmethod
    def truncate(self, *secrets: Shared) -> tuple[Shared, ...]:
        """Round each secret to the ring's fraction, all in one round.

        The result is the quotient rounded down or up. Nothing fails as long as each word is below 2^(bits - 2) in
        magnitude.
        """

    @abstractmethod
    def negative(self, secret: Shared) -> Shared:
        """1 where a number is below zero, else 0; of fraction 0."""

    @abstractmethod
    def reveal(self, secret: Shared, to: int) -> Tensor | None:
        """Tell one party the secret, as real numbers; None where that party is not here."""

    def subtract_from_one(self, bit: Shared) -> Shared:
        """1 - bit, for a secret of fraction 0."""
        return self.add_public(bit.times(-1), 1)

    @abstractmethod
    def add_public(self, secret: Shared, word: int) -> Shared:
        """The secret plus a public word: one party adds it."""
