"""Ring: real numbers as fixed-point integers modulo 2^bits.

Words are int64 tensors. Torch's integer arithmetic wraps, so 64 bits cost no reduction; a smaller ring, in which a test
can go through all randomness, reduces after each operation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from modelkeep.core.errors import InputError, bad_parameter


@dataclass(frozen=True)
class ShareRing:
    """Integers modulo 2^`bits` that stand for multiples of 2^-`fraction`.

    A product has twice the fraction and must stay below 2^(bits - 2) in magnitude until it is truncated: with 64 bits
    and a fraction of 20 that is a value below 2^22.

    >>> ring = ShareRing()
    >>> ring.decode(ring.encode(torch.tensor([0.5, -3.25])))
    tensor([ 0.5000, -3.2500], dtype=torch.float64)
    """

    bits: int = 64
    fraction: int = 20

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 64:
            raise bad_parameter("ShareRing", "bits", "2 to 64", self.bits)
        most = (self.bits - 2) // 2
        if not 0 <= self.fraction <= most:
            raise bad_parameter("ShareRing", "fraction", f"0 to {most}, with {self.bits} bits", self.fraction)

    @property
    def top(self) -> int:
        """The place of the sign bit."""
        return self.bits - 1

    def encode(self, values: Tensor, fraction: int | None = None) -> Tensor:
        """The words of real numbers, rounded to the nearest multiple of 2^-fraction."""
        scaled = (values.detach().to(torch.float64) * 2.0 ** self._or_default(fraction)).round()
        if not bool((scaled.abs() < 2.0 ** (self.bits - 2)).all()):  # NaN is not below it either
            raise InputError(
                f"Shares hold finite numbers below {2.0 ** (self.bits - 2 - self._or_default(fraction)):g} in "
                "magnitude, and there is one that is not. Scale the values, or choose a smaller fraction."
            )
        return self.reduce(scaled.to(torch.int64))

    def decode(self, words: Tensor, fraction: int | None = None) -> Tensor:
        """The real numbers (float64) that the words stand for."""
        spare = 64 - self.bits
        signed = (words << spare) >> spare
        return signed.to(torch.float64) * 2.0 ** -self._or_default(fraction)

    def reduce(self, words: Tensor) -> Tensor:
        """The same words modulo 2^bits."""
        return words if self.bits == 64 else words & ((1 << self.bits) - 1)

    def shift_right(self, words: Tensor, by: int) -> Tensor:
        """The words, read as numbers from 0 to 2^bits - 1, divided by 2^by and rounded down."""
        if by == 0:
            return self.reduce(words)
        return (self.reduce(words) >> by) & ((1 << (self.bits - by)) - 1)

    def shift_left(self, words: Tensor, by: int) -> Tensor:
        """The words times 2^by; nothing remains where that is the whole ring."""
        return torch.zeros_like(words) if by >= self.bits else self.reduce(words << by)

    def low(self, words: Tensor) -> Tensor:
        """All bits below the sign bit."""
        return words & ((1 << self.top) - 1)

    def _or_default(self, fraction: int | None) -> int:
        return self.fraction if fraction is None else fraction
