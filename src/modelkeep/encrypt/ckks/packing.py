"""Packing: which number stands in which slot, so that a whole layer is a few products and rotations.

A vector is *periodic* where slot s holds entry s mod p, p being a power of two that divides the number of slots.
Three facts about it carry everything here (they are tested by brute force):

- The client can repeat an input wherever it is needed, for nothing. `Gather` uses that for the first layer: slot
  t·p + i holds the input of tap t of unit i, one product gives all summands, and log2(taps) rotations sum them.
- Later layers take a periodic vector by its diagonals (Halevi2014, section 4.3; Juvekar2018, section 4.2, for the
  rectangular form) in baby and giant steps, so 16 diagonals take 6 rotations.
- Sums run over whole periods, so that *every* slot of a result is a whole sum, again periodic. No slot ever holds a
  partial sum, which would tell the client about single weights; padding is exactly zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from modelkeep.encrypt.ckks.scheme import Floats

Indices = np.ndarray[Any, np.dtype[np.int64]]
EMPTY = -1  # the index of a slot that holds zero


def power_above(n: int) -> int:
    """The smallest power of two that is at least n.

    >>> power_above(10), power_above(16)
    (16, 16)
    """
    return 1 << max(0, n - 1).bit_length()


@dataclass(frozen=True)
class Gather:
    """Where the client puts its inputs for the first layer: `index[c, s]` is the input in slot s of ciphertext c.

    `index` has `taps · period` columns, which repeat over all slots.
    """

    index: Indices
    period: int
    taps: int

    @property
    def steps(self) -> tuple[int, ...]:
        """The rotations that sum the taps."""
        return tuple(self.period << k for k in range(int(math.log2(self.taps))))

    def place(self, x: Floats, slots: int) -> Floats:
        """The slots of each ciphertext for the flat input `x`, `(ciphertexts, slots)`."""
        placed = np.where(self.index == EMPTY, 0.0, x[self.index])
        return np.tile(placed, (1, slots // placed.shape[1]))

    def factors(self, weight: Floats) -> Floats:
        """What each slot is multiplied by, `(ciphertexts, taps · period)`."""
        units = np.arange(self.index.shape[1]) % self.period
        padded = np.zeros((self.period, weight.shape[1]))
        padded[: len(weight)] = weight
        return np.where(self.index == EMPTY, 0.0, padded[units, self.index])


def gather(pattern: np.ndarray[Any, np.dtype[np.bool_]], slots: int) -> Gather:
    """The packing of inputs for a first layer whose unit i takes the inputs at `pattern[i]`.

    >>> gather(np.eye(2, dtype=bool), slots=8).index
    array([[0, 1]])
    """
    period = power_above(len(pattern))
    most = max(1, int(pattern.sum(axis=1).max()))
    room = slots // period
    taps = min(power_above(most), room)
    ciphertexts = math.ceil(most / taps)
    table = np.full((period, ciphertexts * taps), EMPTY)
    for unit, row in enumerate(pattern):
        found = np.flatnonzero(row)
        table[unit, : len(found)] = found
    index = table.reshape(period, ciphertexts, taps).transpose(1, 2, 0).reshape(ciphertexts, taps * period)
    return Gather(index, period, taps)


@dataclass(frozen=True)
class Diagonals:
    """A matrix as diagonals of a periodic vector: `values[k, s]` is multiplied with the vector rotated by k.

    A product rotated is a product of the rotated, so diagonal g·baby + b is kept rotated back by g·baby; then `baby`
    rotations of the vector and one rotation per group are enough. `sums` are the rotations that fold a long period
    into the short one of the result.
    """

    values: Floats
    baby: int
    period: int
    sums: tuple[int, ...]

    @property
    def groups(self) -> int:
        """The number of giant steps, the one by nothing included."""
        return math.ceil(len(self.values) / self.baby)

    @property
    def steps(self) -> tuple[int, ...]:
        """All rotations."""
        baby = range(1, self.baby)
        return (*baby, *(group * self.baby for group in range(1, self.groups)), *self.sums)


def diagonals(weight: Floats, period: int) -> Diagonals:
    """The diagonals of a matrix that acts on a vector of this period.

    >>> diagonals(np.eye(2), 2).values
    array([[1., 1.],
           [0., 0.]])
    """
    rows = power_above(len(weight))
    padded = np.zeros((rows, period))
    padded[: len(weight), : weight.shape[1]] = weight
    width, count = max(rows, period), min(rows, period)
    baby = power_above(math.isqrt(count))
    slots = np.arange(width)
    values = np.empty((count, width))
    for k in range(count):
        values[k] = np.roll(padded[slots % rows, (slots + k) % period], (k // baby) * baby)
    sums = tuple(rows << k for k in range(int(math.log2(width // rows))))
    return Diagonals(values, baby, rows, sums)
