"""Ring: the integers modulo 2^k, each represented by the integer of least magnitude."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from modelkeep.core.errors import InputError, bad_parameter

MOST_BITS = 62
"""A sum of two representatives must fit into 64 bits."""


@dataclass(frozen=True)
class Ring:
    """The integers modulo 2^`bits`, as the representatives -2^(bits-1) … 2^(bits-1) - 1 in int64.

    2^bits divides 2^64, so a sum or product that overflows int64 is still right modulo 2^bits: torch's int64
    arithmetic is exact here, whatever the size of the operands.

    >>> Ring(4).wrap(torch.tensor([7, 8, -8, -9, 16]))
    tensor([ 7, -8, -8,  7,  0])
    """

    bits: int

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MOST_BITS:
            raise bad_parameter("Ring", "bits", f"from 1 to {MOST_BITS}", self.bits)

    @property
    def size(self) -> int:
        """How many elements the ring has."""
        return 1 << self.bits

    def wrap(self, values: torch.Tensor) -> torch.Tensor:
        """The representatives of `values`, any int64 tensor."""
        require_integers(values)
        half = self.size >> 1
        return ((values + half) & (self.size - 1)) - half

    def matmul(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """The matrix product in the ring."""
        require_integers(left)
        require_integers(right)
        return self.wrap(left @ right)

    @classmethod
    def holding(cls, least: int, most: int) -> Ring:
        """The smallest ring in which every integer from `least` to `most` is its own representative.

        >>> Ring.holding(-8, 7), Ring.holding(0, 8)
        (Ring(bits=4), Ring(bits=5))
        """
        return cls(1 + max(most.bit_length(), (-least - 1).bit_length() if least < 0 else 0))


def shift_right(values: torch.Tensor, bits: int, noise: torch.Tensor | None = None) -> torch.Tensor:
    """`values` / 2^`bits`, rounded to the nearest integer (halves upwards) or, with `noise`, stochastically.

    `noise` are integers drawn evenly from 0 … 2^bits - 1: the rounded value is then right in the mean.

    >>> shift_right(torch.tensor([5, 6, -5, -6]), 2)
    tensor([ 1,  2, -1, -1])
    """
    if bits == 0:
        return values
    return (values + (noise if noise is not None else 1 << (bits - 1))) >> bits


def require_integers(values: torch.Tensor) -> None:
    """Refuse a tensor that is not int64: a float would be rounded in silence."""
    if values.dtype != torch.int64:
        raise InputError(f"Integer networks take int64 tensors. Got {values.dtype}. Encode the inputs first.")
