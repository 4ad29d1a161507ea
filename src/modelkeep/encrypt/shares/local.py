"""Local: the three parties and the dealer in one process, for tests, for speed and to try things."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from modelkeep.encrypt.shares.channel import MemoryChannel
from modelkeep.encrypt.shares.computation import PARTIES, Computation
from modelkeep.encrypt.shares.dealer import Dealer
from modelkeep.encrypt.shares.keys import Keys
from modelkeep.encrypt.shares.parties import Parties
from modelkeep.encrypt.shares.ring import ShareRing
from modelkeep.encrypt.shares.traffic import Traffic

T = TypeVar("T")


class Local:
    """Runs programs for all roles here. It protects nothing, as one process sees everything; the words are the same.

    >>> import torch
    >>> here = Local(ShareRing(), Keys.from_seed(0))
    >>> def double_product(c: Computation) -> torch.Tensor | None:
    ...     x, y = c.mask(c.share(0, (1,), torch.tensor([1.5])), c.share(1, (1,), torch.tensor([-4.0])))
    ...     return c.reveal(c.multiply(x, y).times(2), to=1)
    >>> here.run(double_product)
    tensor([-12.], dtype=torch.float64)
    """

    def __init__(self, ring: ShareRing, keys: Keys) -> None:
        places = range(PARTIES)
        self.channel = MemoryChannel()
        self.dealer = Dealer(ring, keys.of_dealer.mask_streams(places))
        self.parties = Parties(ring, places, self.channel, keys.mask_streams(places), keys.input_streams())

    @property
    def traffic(self) -> Traffic:
        """What would have crossed."""
        return self.channel.traffic

    def run(self, program: Callable[[Computation], T]) -> T:
        """One pass: the dealer first, which needs no input, then the parties."""
        program(self.dealer)
        self.channel.deal(self.dealer.end_pass())
        self.parties.begin_pass()
        result = program(self.parties)
        self.parties.end_pass()
        return result
