"""Windows: the squares of an image, or sets of values of any other input, in which Square proposes its changes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch


@dataclass(frozen=True)
class Windows:
    """Random windows of inputs of one `shape`: `(channels, height, width)` is an image, everything else a table.

    A table's values have no neighbours, so a window is any set of them, and each value has a sign of its own where
    a window of an image has one per channel.
    """

    shape: tuple[int, ...]
    generator: torch.Generator

    @property
    def image(self) -> bool:
        return len(self.shape) == 3

    def flat(self, x: torch.Tensor) -> torch.Tensor:
        """`x: (n, *shape)` as `(n, channels, positions)`."""
        return x.reshape(len(x), self.shape[0] if self.image else 1, -1)

    def draw(self, n: int, share: float, *, bumps: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        """A window per example that covers about `share` of the input, and a pattern of random sign for it.

        The positions are `(n, channels, k)`, to gather and scatter with in `flat`; the pattern broadcasts to them. It
        is constant over a square or, with `bumps`, two bumps side by side of opposite sign.
        """
        if not self.image:
            positions = math.prod(self.shape)
            count = min(max(round(share * positions), 1), positions)
            place = self._uniform(n, positions).topk(count, dim=1).indices[:, None]
            return place, self._signs(n, 1, count)
        channels, height, width = self.shape
        side = max(round(math.sqrt(share * height * width)), 1)
        if bumps:
            side = max(side, 3) // 2 * 2 + 1  # odd, so that the smaller bump has a centre
        tall, wide = min(side, height), min(side, width)
        top = (self._uniform(n) * (height - tall + 1)).long()
        left = (self._uniform(n) * (width - wide + 1)).long()
        corner = (top * width + left)[:, None, None]
        inner = torch.arange(tall)[:, None] * width + torch.arange(wide)
        place = (corner + inner.flatten()).expand(n, channels, -1)
        signs = self._signs(n, channels, 1)
        if not bumps:
            return place, signs
        lying = two_bumps(tall, wide).flatten()
        standing = two_bumps(wide, tall).t().flatten()
        turned = (self._uniform(n) < 0.5)[:, None, None]
        return place, signs * torch.where(turned, standing, lying)

    def stripes(self, n: int) -> torch.Tensor:
        """±1 for `n` inputs: vertical stripes for images, to which convolutions are sensitive."""
        if not self.image:
            return self._signs(n, *self.shape)
        channels, height, width = self.shape
        return self._signs(n, channels, 1, width).expand(n, channels, height, width)

    def tiles(self, n: int) -> torch.Tensor:
        """Images of about five by five tiles, in each a pair of bumps of random sign; ±1 for tables."""
        if not self.image:
            return self._signs(n, *self.shape)
        channels, height, width = self.shape
        side = max(min(height, width) // 5, 1)
        down, across = max(height // side, 1), max(width // side, 1)
        signs = self._signs(n, channels, down, 1, across, 1)
        tiles = (signs * two_bumps(side, side)[None, None, None, :, None, :]).reshape(
            n, channels, down * side, across * side
        )
        empty = torch.zeros(n, *self.shape)
        empty[:, :, : down * side, : across * side] = tiles
        return empty

    def _uniform(self, *shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=self.generator)

    def _signs(self, *shape: int) -> torch.Tensor:
        return (self._uniform(*shape) < 0.5).float() * 2 - 1


@cache
def two_bumps(height: int, width: int) -> torch.Tensor:
    """Two rectangles, one above the other, that fall off from their middles and have opposite signs."""
    upper = height // 2
    if upper == 0:
        return _bump(height, width)
    return torch.cat([_bump(upper, width), -_bump(height - upper, width)])


def _bump(height: int, width: int) -> torch.Tensor:
    """Σ 1 / (k + 1)² over the rings k that enclose a position, of length one (equation 2 of the paper)."""
    row, column = torch.arange(height) - height // 2, torch.arange(width) - width // 2
    ring = torch.maximum(row.abs()[:, None], column.abs()[None, :])
    falling = 1 / torch.arange(1, int(ring.max()) + 2, dtype=torch.float32).square()
    bump = falling.flip(0).cumsum(0).flip(0)[ring]
    return bump / bump.square().sum().sqrt()
