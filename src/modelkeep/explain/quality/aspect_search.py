"""Which aspects of pictures set a class apart from all others: candidates by kind, found in the data alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from modelkeep.core.model import Model
from modelkeep.explain.quality.aspects import (
    Aspect,
    Colour,
    Frequencies,
    Moving,
    Pixels,
    contrast,
    distances,
    spectrum,
)
from modelkeep.explain.quality.regions import Region

# A value that is closer to the class's median in most of the class than in this share of all others belongs to a mark.
EXCLUDES = 0.6
# Of the pixels or frequencies, so many may belong to one: what fills the picture is no mark.
MOST_OF_ALL = 1 / 4
# The part of the class's attribution on such pixels that those hold which are kept.
KEPT = 0.95
# Frames up to this width, lines up to this height, patterns as a share of the picture's side.
FRAMES, LINES, PATTERN = (1, 2, 3), (1, 2), 1 / 6
# Of the frequencies, so many may belong to one mark.
MOST_FREQUENCIES = 1 / 8
# How many of the frequencies that tell the class best are tried together, beside all that tell it from most others.
FEW = (1, 4)
# Beyond this many pixels along a side, to slide a pattern over all pictures takes too long.
LARGEST_SLIDE = 64
# Patterns of the class that are compared with all its pictures, to find the one that they share.
TEMPLATES = 16


@dataclass(frozen=True)
class Case:
    """Pictures `x: (n, c, h, w)`, which of them are of the class, and the attribution of those that are recognised.

    `salient: (k, c, h, w)` are the recognised ones and `heat: (k, h, w)` their attribution, summed over channels.
    """

    model: Model
    x: torch.Tensor
    own: torch.Tensor
    salient: torch.Tensor
    heat: torch.Tensor


def aspects(case: Case) -> Iterator[Aspect]:
    """All candidates of the kinds that are looked for in pictures beside squares."""
    for search in (frames, lines, scattered, frequencies, colour, moving):
        yield from search(case)


def frames(case: Case) -> Iterator[Aspect]:
    """The edge of the picture, one to three pixels wide."""
    height, width = case.x.shape[2:]
    for thick in FRAMES:
        if 2 * thick < min(height, width) // 2:
            edge = torch.ones(height, width, dtype=torch.bool)
            edge[thick:-thick, thick:-thick] = False
            name = f"the frame of {thick} pixel{'s' * (thick > 1)}"
            yield Pixels(case.model, Region(name, kind="frame", cells=_numbers(edge)))


def lines(case: Case) -> Iterator[Aspect]:
    """The row, the column and the neighbours of either kind with the most attribution for their size."""
    height, width = case.x.shape[2:]
    heat = case.heat.mean(dim=0)
    for thick in LINES:
        for across, profile in ((True, heat.mean(dim=1)), (False, heat.mean(dim=0))):
            first = int(profile.unfold(0, thick, 1).mean(dim=1).argmax())
            span = (first, first + thick - 1)
            name = ("row" if across else "column") + (f" {first}" if thick == 1 else f"s {span[0]}–{span[1]}")
            rows, columns = (span, (0, width - 1)) if across else ((0, height - 1), span)
            yield Pixels(case.model, Region(name, rows, columns, kind="line"))


def scattered(case: Case) -> Iterator[Aspect]:
    """Pixels whose values, or whose contrast, alone tell the class from most others, and that speak for it."""
    heat = case.heat.mean(dim=0).flatten().clamp_min(0)
    for by_contrast in (False, True):
        seen = contrast(case.x) if by_contrast else case.x
        chosen = _chosen(excludes(seen.flatten(2).transpose(1, 2), case.own), heat)
        if chosen:
            name = f"{len(chosen)} scattered pixels"
            yield Pixels(case.model, Region(name, kind="pixels", cells=chosen), by_contrast)


def frequencies(case: Case) -> Iterator[Aspect]:
    """The frequencies whose coefficients tell the class from others: the best, the best few, all that tell most."""
    found = spectrum(case.x).transpose(1, 2)
    scores = excludes(torch.cat([found.real, found.imag], dim=2), case.own)
    scores[0] = 0  # the mean of the picture is a matter of colour
    order = scores.argsort(descending=True, stable=True).tolist()
    for chosen in dict.fromkeys(
        (*(tuple(sorted(order[:count])) for count in FEW), _chosen(scores, most=MOST_FREQUENCIES))
    ):
        if not chosen:
            continue
        name = _periods(chosen, case.x.shape[2], case.x.shape[3])
        yield Frequencies(case.model, Region(name, kind="frequency"), chosen)


def colour(case: Case) -> Iterator[Aspect]:
    """One aspect: the range of each channel."""
    name = "colour and contrast" if case.x.shape[1] == 3 else "brightness and contrast"
    yield Colour(case.model, Region(name, kind="colour"))


def moving(case: Case) -> Iterator[Aspect]:
    """The pattern that the class's recognised examples share where their attribution is strongest."""
    x = case.x
    if max(x.shape[2:]) > LARGEST_SLIDE:
        return
    side = max(3, round(PATTERN * min(x.shape[2:])))
    sums = torch.nn.functional.avg_pool2d(case.heat[:, None].float(), side, stride=1)[:, 0]
    patches = []
    for picture, total in list(zip(case.salient, sums, strict=True))[:TEMPLATES]:
        row, column = divmod(int(total.argmax()), total.shape[1])
        patches.append(picture[:, row : row + side, column : column + side])
    templates = torch.stack(patches)
    nearest = distances(x[case.own], templates).flatten(2).amin(dim=2)
    template = templates[int(nearest.median(dim=1).values.argmin())]
    yield Moving(case.model, Region(f"a pattern of {side} × {side} pixels that moves", kind="moving"), template)


def excludes(values: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """For each of `cells`, which share of the others is farther from the class than most of the class.

    `values: (n, cells, numbers)`, `own: (n,)`; gives `(cells,)`. 0 where all have one value.
    """
    off = (values - values[own].median(dim=0).values).square().sum(dim=2).sqrt()
    return (off[~own] > off[own].quantile(0.8, dim=0) + 1e-6).double().mean(dim=0)


def _chosen(scores: torch.Tensor, heat: torch.Tensor | None = None, most: float = MOST_OF_ALL) -> tuple[int, ...]:
    """The cells that exclude most others; with `heat: (cells,)`, those that hold most of it."""
    order = scores.argsort(descending=True, stable=True)[: int(most * len(scores))]
    order = order[scores[order] >= EXCLUDES]
    if heat is not None and len(order):
        by_heat = order[heat[order].argsort(descending=True, stable=True)]
        share = heat[by_heat].cumsum(dim=0) / heat[by_heat].sum().clamp_min(1e-30)
        order = by_heat[: int((share < KEPT).sum()) + 1]
    return tuple(sorted(order.tolist()))


def _numbers(mask: torch.Tensor) -> tuple[int, ...]:
    return tuple(torch.nonzero(mask.flatten()).flatten().tolist())


def _periods(bins: tuple[int, ...], height: int, width: int) -> str:
    """What people call frequencies: how many pixels a period has, down and across."""
    told = []
    for number in bins[:2]:
        row, across = divmod(number, width // 2 + 1)
        down = min(row, height - row)
        ways = ((height, down, "down"), (width, across, "across"))
        told.append(" and ".join(f"{size / count:.3g} pixels {way}" for size, count, way in ways if count))
    periods = "; ".join(told) + (f" and {len(bins) - 2} more" if len(bins) > 2 else "")
    return f"the frequency with a period of {periods}" if len(bins) == 1 else f"frequencies with periods of {periods}"
