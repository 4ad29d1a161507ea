"""Table: a function on k-bit integers, written down. It is how a network computes what is not a polynomial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.results import Tensor
from modelkeep.encrypt.integers.ring import Ring, require_integers

MOST_BITS = 20
"""A table of 2^20 entries takes 8 MB; programmable bootstrapping ends at 16 bits."""


@dataclass(frozen=True, eq=False)
class Table:
    """A function of the ring of `bits` bits. The `dropped` low bits of its argument do not matter.

    `entries: (2^(bits - dropped),)`. The argument is reduced into the ring, divided by 2^dropped and rounded down;
    that number modulo 2^(bits - dropped) is the entry's place. So negative arguments have the upper half.
    """

    bits: int
    entries: Tensor = field(repr=False)
    dropped: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.dropped < self.bits:
            raise bad_parameter("Table", "dropped", f"from 0 to {self.bits - 1}", self.dropped)
        if self.bits - self.dropped > MOST_BITS:
            raise InputError(
                f"A table on {self.bits - self.dropped} bits would have {2 ** (self.bits - self.dropped):,} entries; "
                f"{MOST_BITS} bits are the most. Use fewer bits for inputs or weights, or drop low bits."
            )
        require_integers(self.entries)
        if self.entries.shape != (1 << (self.bits - self.dropped),):
            raise InputError(
                f"A table on {self.bits} bits of which {self.dropped} are dropped has "
                f"{1 << (self.bits - self.dropped)} entries. Got a tensor of shape {tuple(self.entries.shape)}."
            )

    @classmethod
    def of(cls, function: Callable[[torch.Tensor], torch.Tensor], bits: int, dropped: int = 0) -> Table:
        """The table of a function from int64 tensors to int64 tensors.

        With dropped bits, the function is asked at the middle of each interval of arguments that share an entry.

        >>> Table.of(torch.abs, bits=3).entries
        tensor([0, 1, 2, 3, 4, 3, 2, 1])
        """
        if bits - dropped > MOST_BITS:
            return cls(bits, torch.zeros(0, dtype=torch.int64), dropped)  # which says what is allowed
        places = Ring(bits - dropped).wrap(torch.arange(1 << (bits - dropped)))
        middle = (places << dropped) + ((1 << dropped) >> 1)
        return cls(bits, function(middle), dropped)

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """The entry of each value."""
        require_integers(values)
        return self.entries[(values >> self.dropped) & (len(self.entries) - 1)]
