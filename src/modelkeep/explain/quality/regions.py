"""Regions: small places of the input, at one position for all examples, on which a class's attribution concentrates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from matplotlib.patches import Rectangle

# The largest square that is looked for, as a share of a picture's area: a corner of 2×2 in 8×8 pixels.
LARGEST = 1 / 16
# Outer rows and columns are dropped from it as long as the rest keeps this much of its attribution.
KEPT = 0.95
# What keeps a value from counting without bound where it hardly varies in the class.
_STEADY = 0.1


@dataclass(frozen=True)
class Region:
    """A rectangle of a picture, or one feature of a table. Rows and columns count from 0, and the last ones belong."""

    name: str
    rows: tuple[int, int] | None
    columns: tuple[int, int] | None
    feature: int | None

    def mask(self, shape: tuple[int, ...]) -> torch.Tensor:
        """True inside the region, for inputs of this shape."""
        inside = torch.zeros(shape, dtype=torch.bool)
        if self.feature is not None:
            inside.view(-1)[self.feature] = True
        else:
            assert self.rows is not None
            assert self.columns is not None
            inside[:, self.rows[0] : self.rows[1] + 1, self.columns[0] : self.columns[1] + 1] = True
        return inside

    def outline(self) -> Rectangle:
        """The frame of a rectangle, to be added to the axes of a picture."""
        from matplotlib.patches import Rectangle

        from modelkeep.core.plots import PALETTE

        assert self.rows is not None
        assert self.columns is not None
        width, height = self.columns[1] - self.columns[0] + 1, self.rows[1] - self.rows[0] + 1
        corner = (self.columns[0] - 0.5, self.rows[0] - 0.5)
        return Rectangle(corner, width, height, fill=False, edgecolor=PALETTE[1], linewidth=2, clip_on=False)

    def elsewhere(self, shape: tuple[int, ...], count: int, generator: torch.Generator) -> torch.Tensor:
        """`count` masks of the same size at random other places that do not touch the region, `(count, *shape)`."""
        own = self.mask(shape)
        if self.feature is not None:
            others = torch.nonzero(~own.view(-1)).flatten()
            drawn = others[torch.randint(len(others), (count,), generator=generator)]
            return functional.one_hot(drawn, own.numel()).bool().view(count, *shape)
        assert self.rows is not None
        assert self.columns is not None
        height, width = self.rows[1] - self.rows[0] + 1, self.columns[1] - self.columns[0] + 1
        places = [
            (row, column)
            for row in range(shape[1] - height + 1)
            for column in range(shape[2] - width + 1)
            if abs(row - self.rows[0]) >= height or abs(column - self.columns[0]) >= width
        ]
        masks = torch.zeros(count, *shape, dtype=torch.bool)
        for mask, i in zip(masks, torch.randint(len(places), (count,), generator=generator).tolist(), strict=True):
            row, column = places[i]
            mask[:, row : row + height, column : column + width] = True
        return masks


def rectangle(top: int, bottom: int, left: int, right: int) -> Region:
    """The region from row `top` to `bottom` and column `left` to `right`, both included.

    >>> rectangle(0, 1, 6, 7).name
    'rows 0–1, columns 6–7'
    """

    def span(what: str, first: int, last: int) -> str:
        return f"{what} {first}" if first == last else f"{what}s {first}–{last}"

    name = f"{span('row', top, bottom)}, {span('column', left, right)}"
    return Region(name, (top, bottom), (left, right), None)


def feature(index: int, names: tuple[str, ...] | None) -> Region:
    """The region that is one feature of a table."""
    return Region(f"'{names[index]}'" if names is not None else f"feature {index}", None, None, index)


def candidates(attribution: torch.Tensor, names: tuple[str, ...] | None, count: int) -> list[Region]:
    """The `count` places with the most attribution, which do not overlap. `attribution: input shape`, mean of a class.

    Pictures are searched with one square of a sixteenth of their area, which is then cut to what it is about. Where
    there is only one feature, there is no other place to compare it with, and so no candidate.
    """
    if not is_picture(tuple(attribution.shape)):
        flat = attribution.flatten()
        best = flat.argsort(descending=True, stable=True)[:count].tolist()
        return [feature(i, names) for i in best if flat[i] > 0 and len(flat) > 1]
    heat = attribution.sum(dim=0)
    side = min(max(1, int(math.sqrt(LARGEST * heat.numel()))), min(heat.shape) // 2)
    sums = functional.avg_pool2d(heat[None, None], side, stride=1)[0, 0]
    found = []
    for _ in range(count):
        row, column = divmod(int(sums.argmax()), sums.shape[1])
        if not sums[row, column] > 0:
            break
        found.append(_trim(heat, row, column, side))
        sums[max(0, row - side + 1) : row + side, max(0, column - side + 1) : column + side] = -torch.inf
    return found


def is_picture(shape: tuple[int, ...]) -> bool:
    """Whether inputs of this shape have rows and columns that are large enough to search for a patch."""
    return len(shape) == 3 and min(shape[1:]) >= 4


def set_apart(x: torch.Tensor, own: torch.Tensor, region: Region) -> float:
    """How far the content of the region in a class lies from that in all others, `x: (n, ...)`, `own: (n,)` bool.

    The distance of a content is that to the class's median, in which each value counts the more the steadier it is in
    the class. What is natural varies, so some examples of other classes always come near; a planted mark leaves a gap
    between most of the class and nearly all of the others. The gap is given as a share of the median distance of the
    others; below 0 there is none.
    """
    content = x[:, region.mask(tuple(x.shape[1:]))].double()
    off = (content - content[own].median(dim=0).values).abs()
    # Without the second term, values that never vary in the class would be all that counts.
    distance = (off / (off[own].mean(dim=0) + _STEADY * off[~own].mean(dim=0)).clamp_min(1e-12)).mean(dim=1)
    near, usual = distance[~own].quantile(0.02), distance[~own].median()
    return float((near - distance[own].quantile(0.8)) / usual) if usual > 0 else 0.0


def _trim(heat: torch.Tensor, row: int, column: int, side: int) -> Region:
    """The smallest rectangle within the square that keeps most of its attribution, dropping the weakest edge first."""
    top, bottom, left, right = row, row + side - 1, column, column + side - 1
    positive = heat.clamp_min(0)
    rest = float(positive[top : bottom + 1, left : right + 1].sum())
    needed = KEPT * rest
    while True:
        inside = positive[top : bottom + 1, left : right + 1]
        edges = {
            "top": float(inside[0].sum()),
            "bottom": float(inside[-1].sum()),
            "left": float(inside[:, 0].sum()),
            "right": float(inside[:, -1].sum()),
        }
        weakest = min(edges, key=edges.__getitem__)
        rest -= edges[weakest]
        if rest < needed:
            return rectangle(top, bottom, left, right)
        top, bottom = top + (weakest == "top"), bottom - (weakest == "bottom")
        left, right = left + (weakest == "left"), right - (weakest == "right")
