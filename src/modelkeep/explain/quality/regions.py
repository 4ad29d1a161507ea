"""Regions: the parts of an input that may decide for a class, and how far their content sets the class apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Kind = Literal["square", "feature", "frame", "line", "pixels", "frequency", "colour", "moving", "units"]
"""What a region is: see `KINDS` for each in words."""

KINDS: dict[Kind, str] = {
    "square": "small squares at one place",
    "feature": "single features",
    "frame": "frames along the edge",
    "line": "rows and columns",
    "pixels": "scattered pixels",
    "frequency": "frequencies",
    "colour": "brightness, contrast and colour of the whole picture",
    "moving": "small patterns wherever they are",
    "units": "channels and units inside the network",
}

# The largest square that is looked for, as a share of a picture's area: a corner of 2×2 in 8×8 pixels.
LARGEST = 1 / 16
# By how much of a pixel an outline lies outside of what it surrounds.
OUTSIDE = 0.25
# Outer rows and columns are dropped from it as long as the rest keeps this much of its attribution.
KEPT = 0.95
# What keeps a value from counting without bound where it hardly varies in the class.
_STEADY = 0.1


@dataclass(frozen=True)
class Region:
    """A rectangle of a picture, one feature of a table, or another part of the `kind` that its `name` describes.

    Rows and columns count from 0, and the last ones belong. `cells` are the flat numbers of the pixels of a part that
    is no rectangle.
    """

    name: str
    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None
    feature: int | None = None
    kind: Kind = "square"
    cells: tuple[int, ...] = ()

    @property
    def standing(self) -> bool:
        """Whether it is at one place of the input, so that it can be outlined."""
        return self.feature is None and (self.rows is not None or bool(self.cells))

    def mask(self, shape: tuple[int, ...]) -> torch.Tensor:
        """True inside the region, for inputs of this shape."""
        inside = torch.zeros(shape, dtype=torch.bool)
        if self.feature is not None:
            inside.view(-1)[self.feature] = True
        elif self.cells:
            inside.flatten(1)[:, list(self.cells)] = True
        else:
            assert self.rows is not None
            assert self.columns is not None
            inside[:, self.rows[0] : self.rows[1] + 1, self.columns[0] : self.columns[1] + 1] = True
        return inside

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
    return Region(name, (top, bottom), (left, right))


def feature(index: int, names: tuple[str, ...] | None) -> Region:
    """The region that is one feature of a table."""
    return Region(f"'{names[index]}'" if names is not None else f"feature {index}", feature=index, kind="feature")


def outline(ax: Axes, inside: torch.Tensor) -> None:
    """Draw the edge of `inside: (h, w)` just outside of it, so that a mark of one pixel can still be seen."""
    from matplotlib.collections import LineCollection

    from modelkeep.core.plots import PALETTE

    padded = functional.pad(inside, (1, 1, 1, 1))
    off = 0.5 + OUTSIDE
    segments = []
    for row, column in (torch.nonzero(padded) - 1).tolist():
        for down, across in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            if not padded[row + 1 + down, column + 1 + across]:
                y, x = row + off * down, column + off * across
                ends = ((x - 0.5, y), (x + 0.5, y)) if down else ((x, y - 0.5), (x, y + 0.5))
                segments.append(ends)
    ax.add_collection(LineCollection(segments, colors=PALETTE[1], linewidths=1.2, clip_on=False), autolim=False)


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


def set_apart(content: torch.Tensor, own: torch.Tensor) -> float:
    """How far a content `(n, values)` in a class, `own: (n,)` bool, lies from that in all others.

    The distance of a content is that to the class's median, in which each value counts the more the steadier it is in
    the class. What is natural varies, so some examples of other classes always come near; a planted mark leaves a gap
    between most of the class and nearly all of the others. The gap is given as a share of the median distance of the
    others; below 0 there is none.
    """
    content = content.double()
    off = (content - content[own].median(dim=0).values).abs()
    # Without the second term, values that never vary in the class would be all that counts.
    distance = (off / (off[own].mean(dim=0) + _STEADY * off[~own].mean(dim=0)).clamp_min(1e-12)).mean(dim=1)
    return gap(distance, own)


def gap(distance: torch.Tensor, own: torch.Tensor) -> float:
    """The gap between the distances of most of a class and those of nearly all others, by the others' median."""
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
