"""Parties: the side of a computation that holds shares, for all three parties in one process or for one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from modelkeep.core.errors import InputError, WireError
from modelkeep.encrypt.shares.channel import Channel
from modelkeep.encrypt.shares.computation import PARTIES, Computation, Masked, Shared
from modelkeep.encrypt.shares.ring import ShareRing
from modelkeep.encrypt.shares.stream import Stream, draw_rows

LAST = PARTIES - 1
"""The party that gets the dealer's corrections; the others' shares of a dealt number are streams."""


class Parties(Computation):
    """The parties that are here, each with a row of every tensor of shares.

    Args:
        ring: Where the numbers live.
        places: Which of the parties 0, 1 and 2 are here.
        channel: To the others, and from the dealer.
        masks: The streams that each party here shares with the dealer.
        inputs: The streams of the shares of inputs, by (owner, other).
    """

    def __init__(
        self,
        ring: ShareRing,
        places: Sequence[int],
        channel: Channel,
        masks: Mapping[int, Stream],
        inputs: Mapping[tuple[int, int], Stream],
    ) -> None:
        self.ring, self.channel = ring, channel
        self._places, self._masks, self._inputs = tuple(places), masks, inputs
        self._dealt = torch.empty(0, dtype=torch.int64)

    def begin_pass(self) -> None:
        """Take what the dealer sent for a pass; what is left of the last one means that the two ran another program."""
        self.end_pass()
        if LAST in self._places:
            self._dealt = self.channel.take_dealt()

    def end_pass(self) -> None:
        """Refuse a dealer that sent more than the pass used."""
        if len(self._dealt):
            raise WireError(f"The dealer sent {len(self._dealt):,} words that no step of the pass uses.")

    def share(self, owner: int, shape: Sequence[int], values: Tensor | None = None) -> Shared:
        shape = tuple(shape)
        others = [place for place in range(PARTIES) if place != owner]
        if owner not in self._places:
            words = draw_rows([self._inputs[owner, place] for place in self._places], shape)
            return Shared(self.ring.reduce(words), self.ring.fraction, self.ring)
        if values is None or tuple(values.shape) != shape:
            got = None if values is None else tuple(values.shape)
            raise InputError(f"Party {owner} shares an input of shape {shape}. Got {got}.")
        drawn = draw_rows([self._inputs[owner, place] for place in others], shape)
        rows = dict(zip(others, drawn, strict=True))
        rows[owner] = self.ring.encode(values).sub_(drawn[0]).sub_(drawn[1])
        words = torch.stack([rows[place] for place in self._places])
        return Shared(self.ring.reduce(words), self.ring.fraction, self.ring)

    def mask(self, *secrets: Shared) -> tuple[Masked, ...]:
        masks = [self.draw(secret.shape) for secret in secrets]
        opened = self.open(*(secret.words - mask for secret, mask in zip(secrets, masks, strict=True)))
        return tuple(
            Masked(public, mask, secret.fraction) for secret, mask, public in zip(secrets, masks, opened, strict=True)
        )

    def matmul(self, x: Masked, y: Masked) -> Shared:
        here, inner, width = y.mask.shape
        # One product for all parties here: E is the same for each of them.
        right = self._add_at_first(y.mask.clone(), y.opened).permute(1, 0, 2).reshape(inner, here * width)
        words = x.mask @ y.opened
        words += (x.opened @ right).view(-1, here, width).permute(1, 0, 2)
        return self._add_dealt(words, x.fraction + y.fraction)

    def multiply(self, x: Masked, y: Masked) -> Shared:
        words = self._add_at_first(y.mask.clone(), y.opened).mul_(x.opened)
        return self._add_dealt(words.addcmul_(x.mask, y.opened), x.fraction + y.fraction)

    def square(self, x: Masked) -> Shared:
        words = self._add_at_first(2 * x.mask, x.opened).mul_(x.opened)
        return self._add_dealt(words, 2 * x.fraction)

    def truncate(self, *secrets: Shared) -> tuple[Shared, ...]:
        """Open each word plus a random one r, and shift what is open (Escudero2020, section 5.2).

        The sum with r is uniform, so nothing is learned from it. The dealer gives shares of r's lower bits, shifted,
        with the two corrections that the wrap around 2^bits may need; the opened top bit says which of the two.
        """
        top, half = self.ring.top, 1 << (self.ring.bits - 2)
        opened = self.open(*(self.draw(secret.shape).add_(secret.words) for secret in secrets))
        results = []
        for secret, public in zip(secrets, opened, strict=True):
            by = secret.fraction - self.ring.fraction
            lifted = self.ring.reduce(public + half)  # a number from 0 to 2^top, plus r
            bit = self.ring.shift_right(lifted, top)
            known = self.ring.shift_right(self.ring.low(lifted), by).add_(bit << (top - by)).sub_(half >> by)
            without, with_bit = self.dealt(secret.shape), self.dealt(secret.shape)
            words = self._add_at_first(torch.where(bit.bool(), with_bit, without), known)
            results.append(Shared(self.ring.reduce(words), self.ring.fraction, self.ring))
        return tuple(results)

    def negative(self, secret: Shared) -> Shared:
        from modelkeep.encrypt.shares.comparison import compare_with_zero

        return compare_with_zero(self, secret)

    def reveal(self, secret: Shared, to: int) -> Tensor | None:
        rows = self.channel.collect(secret.words.flatten(1), to)
        if rows is None:
            return None
        return self.ring.decode(self.ring.reduce(rows.sum(dim=0)), secret.fraction).view(secret.shape)

    def add_public(self, secret: Shared, word: int) -> Shared:
        words = self._add_at_first(secret.words.clone(), torch.tensor(word))
        return Shared(self.ring.reduce(words), secret.fraction, self.ring)

    def draw(self, shape: Sequence[int]) -> Tensor:
        """The next words of the masks, a row per party here."""
        return self.ring.reduce(draw_rows([self._masks[place] for place in self._places], shape))

    def dealt(self, shape: Sequence[int]) -> Tensor:
        """Shares of a number that the dealer chose: streams, and for the last party the correction."""
        rows = draw_rows([self._masks[place] for place in self._places if place != LAST], shape)
        if LAST in self._places:
            rows = torch.cat([rows, self._take(shape)[None]])
        return self.ring.reduce(rows)

    def open(self, *secrets: Tensor, xor: bool = False) -> list[Tensor]:
        """The sums (or exclusive ors) of the parties' rows, in one round."""
        shapes = [tuple(words.shape[1:]) for words in secrets]
        flat = [words.flatten(1) for words in secrets]
        rows = self.channel.gather(self.ring.reduce(flat[0] if len(flat) == 1 else torch.cat(flat, dim=1)))
        joined = rows[0] ^ rows[1] ^ rows[2] if xor else self.ring.reduce(rows.sum(dim=0))
        parts = torch.split(joined, [prod(shape) for shape in shapes])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def first_only(self, public: Tensor) -> Tensor:
        """A public number as shares: the first party has it, the others have zero."""
        return self._add_at_first(torch.zeros((len(self._places), *public.shape), dtype=torch.int64), public)

    def _add_at_first(self, words: Tensor, public: Tensor) -> Tensor:
        """Add a public number to the words, in place: the first party does."""
        if 0 in self._places:
            words[self._places.index(0)] += public
        return words

    def _add_dealt(self, words: Tensor, fraction: int) -> Shared:
        return Shared(self.ring.reduce(words.add_(self.dealt(words.shape[1:]))), fraction, self.ring)

    def _take(self, shape: Sequence[int]) -> Tensor:
        size = prod(shape)
        if len(self._dealt) < size:
            raise WireError(f"The dealer sent {len(self._dealt):,} words where a step of the pass needs {size:,}.")
        taken, self._dealt = self._dealt[:size], self._dealt[size:]
        return taken.view(tuple(shape))
