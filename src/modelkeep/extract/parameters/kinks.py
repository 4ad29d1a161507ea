"""Where the answers bend along a line: the binary search of Rolnick and Kording, as Leino2022 describes it in 8.6.2.

On a line, the logits of a ReLU network are piecewise linear, and each kink is where the line crosses the boundary of a
unit. A cell of the line whose middle is not the mean of its ends holds a kink and is split, until every cell is linear.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from modelkeep.extract.parameters.oracle import Array, Unrecoverable

CELLS = 32  # the cells that a line is first cut into
LEVELS = 24  # how often a cell is split at most


@dataclass(frozen=True, eq=False)
class Kinks:
    """Kinks of one line in order: `at: (k,)` and how the slope of the logits changes there, `jumps: (k, classes)`."""

    at: Array
    jumps: Array


@dataclass
class _Cell:
    """A part of the line with the answers at its ends and in its middle."""

    low: float
    high: float
    ends: tuple[Array, Array]
    middle: Array

    def bends(self, tolerance: float) -> bool:
        return float(np.abs(self.middle - (self.ends[0] + self.ends[1]) / 2).max()) > tolerance


def kinks(ask: Callable[[Array], Array], reach: float, noise: float, most: int) -> Kinks:
    """All kinks for t in [−reach, reach] of the line whose logits at `t: (n,)` are `ask(t): (n, classes)`.

    Args:
        ask: The answers along the line.
        reach: How far to go in both directions.
        noise: The relative error of an answer.
        most: More kinks than this are no network of the expected size: the search stops.
    """
    # Not symmetric: cells whose ends lie on round numbers would meet the kinks of round networks.
    edges = np.linspace(-reach, reach * 1.01, CELLS + 1)
    cells = _cells(ask, edges[:-1], edges[1:])
    tolerance = 16 * noise * (1 + max(np.abs(cell.middle).max() for cell in cells))
    for level in range(LEVELS):
        bent = [i for i, cell in enumerate(cells) if cell.bends(tolerance)]
        if not bent:
            return _corners(cells, tolerance)
        if len(bent) > 2 * most + 2:
            raise Unrecoverable(
                f"its logits bend in more than {most} places on a line: no small ReLU network does that"
            )
        splits = [_split(cells, i, tolerance, guess=level % 2 == 0) for i in bent]
        parts = iter(
            _cells(
                ask,
                np.array([t for i, s in zip(bent, splits, strict=True) for t in (cells[i].low, s)]),
                np.array([t for i, s in zip(bent, splits, strict=True) for t in (s, cells[i].high)]),
            )
        )
        refined: list[_Cell] = []
        split = set(bent)
        for i, cell in enumerate(cells):
            refined += [next(parts), next(parts)] if i in split else [cell]
        cells = refined
    raise Unrecoverable("its logits jump or bend on every scale: it is not a ReLU network, or its answers are guarded")


def _cells(ask: Callable[[Array], Array], low: Array, high: Array) -> list[_Cell]:
    """Cells with their answers; an edge that several cells share is asked once."""
    places, index = np.unique(np.concatenate([low, high, (low + high) / 2]), return_inverse=True)
    answers = ask(places)[index]
    n = len(low)
    return [_Cell(float(low[i]), float(high[i]), (answers[i], answers[n + i]), answers[2 * n + i]) for i in range(n)]


def _split(cells: list[_Cell], i: int, tolerance: float, *, guess: bool) -> float:
    """Where to split: where the lines of the two neighbours meet, which is the kink if there is only one; or in half.

    Two near kinks with opposite bends meet beside them and pass for one: the check of the network notices that.
    """
    cell = cells[i]
    if guess and 0 < i < len(cells) - 1 and not any(cells[j].bends(tolerance) for j in (i - 1, i + 1)):
        meet = _meet(*_line([cells[i - 1]]), *_line([cells[i + 1]]))[0]
        inner = 1e-3 * (cell.high - cell.low)
        if cell.low + inner < meet < cell.high - inner:
            return meet
    return (cell.low + cell.high) / 2


def _line(cells: list[_Cell]) -> tuple[Array, Array]:
    """Value at 0 and slope of a linear piece, by least squares over the answers in it."""
    t = np.array([x for cell in cells for x in (cell.low, (cell.low + cell.high) / 2, cell.high)])
    y = np.stack([v for cell in cells for v in (cell.ends[0], cell.middle, cell.ends[1])])
    mean = t.mean()
    slope = (t - mean) @ (y - y.mean(axis=0)) / ((t - mean) ** 2).sum()
    return y.mean(axis=0) - mean * slope, slope


def _meet(value: Array, slope: Array, other_value: Array, other_slope: Array) -> tuple[float, Array]:
    """Where two lines in the space of logits come nearest, and the change of slope there."""
    jump = other_slope - slope
    square = float(jump @ jump)
    return (float((value - other_value) @ jump) / square if square > 0 else np.inf), jump


def _corners(cells: list[_Cell], tolerance: float) -> Kinks:
    """Join cells that lie on one line to pieces; a kink is where two neighbouring pieces meet."""
    pieces: list[list[_Cell]] = [[cells[0]]]
    for cell in cells[1:]:
        first = pieces[-1][0]
        share = (cell.low - first.low) / (cell.high - first.low)
        straight = first.ends[0] * (1 - share) + cell.ends[1] * share
        if np.abs(straight - cell.ends[0]).max() <= tolerance:
            pieces[-1].append(cell)
        else:
            pieces.append([cell])
    lines = [_line(piece) for piece in pieces]
    at, jumps = [], []
    for i in range(len(lines) - 1):
        meet, jump = _meet(*lines[i], *lines[i + 1])
        edge = pieces[i + 1][0].low
        slack = 4 * tolerance / max(float(np.abs(jump).max()), np.finfo(np.float64).tiny)
        if abs(meet - edge) <= slack + 1e-9 * abs(edge):  # a piece too short to be told from noise has no kink to trust
            at.append(meet)
            jumps.append(jump)
    return Kinks(np.array(at), np.array(jumps).reshape(len(at), cells[0].middle.shape[0]))
