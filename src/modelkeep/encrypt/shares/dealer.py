"""Dealer: the side of a computation that holds no share: it follows the shapes and deals what the parties need.

The dealer knows every mask, so it must not see what the parties open: together with any one of them it learns all
secrets. It gets no message of theirs, and it can deal before there is any input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from modelkeep.encrypt.shares.computation import PARTIES, Computation, Masked, Shared
from modelkeep.encrypt.shares.ring import ShareRing
from modelkeep.encrypt.shares.stream import Stream, draw_rows


class Dealer(Computation):
    """Deals for one program. A `Shared` has no row here, and the `mask` of a `Masked` has one, the whole mask."""

    def __init__(self, ring: ShareRing, masks: Mapping[int, Stream]) -> None:
        self.ring, self._masks = ring, masks
        self._corrections: list[Tensor] = []

    def end_pass(self) -> Tensor:
        """What the last party needs for the pass that was run, `(n,)`."""
        parts, self._corrections = self._corrections, []
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)

    def share(self, owner: int, shape: Sequence[int], values: Tensor | None = None) -> Shared:
        return self._nothing(shape, self.ring.fraction)

    def mask(self, *secrets: Shared) -> tuple[Masked, ...]:
        unknown = torch.zeros((), dtype=torch.int64)
        return tuple(
            Masked(unknown.expand(secret.shape), self.draw(secret.shape)[None], secret.fraction) for secret in secrets
        )

    def matmul(self, x: Masked, y: Masked) -> Shared:
        return self._deal_product(x.mask[0] @ y.mask[0], x, y)

    def multiply(self, x: Masked, y: Masked) -> Shared:
        return self._deal_product(x.mask[0] * y.mask[0], x, y)

    def square(self, x: Masked) -> Shared:
        return self._deal_product(x.mask[0] * x.mask[0], x, x)

    def truncate(self, *secrets: Shared) -> tuple[Shared, ...]:
        top = self.ring.top
        masks = [self.draw(secret.shape) for secret in secrets]
        for secret, mask in zip(secrets, masks, strict=True):
            by = secret.fraction - self.ring.fraction
            low = self.ring.shift_right(self.ring.low(mask), by)
            wrap = self.ring.shift_right(mask, top) << (top - by)
            self.deal(wrap - low)
            self.deal(-wrap - low)
        return tuple(self._nothing(secret.shape, self.ring.fraction) for secret in secrets)

    def negative(self, secret: Shared) -> Shared:
        from modelkeep.encrypt.shares.comparison import deal_comparison

        deal_comparison(self, secret.shape)
        return self._nothing(secret.shape, 0)

    def reveal(self, secret: Shared, to: int) -> None:
        return None

    def add_public(self, secret: Shared, word: int) -> Shared:
        return secret

    def draw(self, shape: Sequence[int], *, xor: bool = False) -> Tensor:
        """The sum (or exclusive or) of the next words of the three streams."""
        rows = draw_rows([self._masks[place] for place in range(PARTIES)], shape)
        return rows[0] ^ rows[1] ^ rows[2] if xor else self.ring.reduce(rows.sum(dim=0))

    def deal(self, words: Tensor, *, xor: bool = False) -> None:
        """Give the parties shares of `words`: two draw theirs, and the last one is sent what is missing."""
        drawn = draw_rows([self._masks[place] for place in range(PARTIES - 1)], words.shape)
        missing = words ^ drawn[0] ^ drawn[1] if xor else words - drawn[0] - drawn[1]
        self._corrections.append(self.ring.reduce(missing).flatten())

    def _deal_product(self, words: Tensor, x: Masked, y: Masked) -> Shared:
        self.deal(words)
        return self._nothing(words.shape, x.fraction + y.fraction)

    def _nothing(self, shape: Sequence[int], fraction: int) -> Shared:
        return Shared(torch.empty((0, *shape), dtype=torch.int64), fraction, self.ring)
