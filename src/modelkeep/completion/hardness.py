"""Hardness: MC-hardness (Martic2018, eq. 1) of every part of a model, under every procedure, at every α."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from modelkeep.completion.curve import Curve, ratio
from modelkeep.core.errors import InputError, bad_parameter, join_names
from modelkeep.core.results import Estimate, Result, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

ALPHAS = (0.5, 0.8, 0.9, 1.0)
SCRATCH = "T"
"""The original training, which is always in the set of procedures: all parameters are drawn anew."""


@dataclass(frozen=True)
class Retraining:
    """One attempt to get `part` back: the loss curves of the original training and of the retraining.

    `setting` is the task that the runs share, such as a game; a seed's hardness is its mean over the settings.
    Seconds are per step of each of the two trainings, where they were measured.
    """

    part: str
    procedure: str
    seed: int
    original: Curve
    retrained: Curve
    seconds_per_step: float | None = None
    setting: str = ""
    original_seconds_per_step: float | None = None


@dataclass(frozen=True)
class Cell:
    """A row of the tables in Martic2018, appendix C: a part, a procedure and α, over the seeds.

    `values` has the hardness of each seed. `censored` of `runs` retrainings never reached the loss; they count as 1.
    `cost` is the mean of the steps that completion took, from scratch where that is faster, and `original_cost` that
    of the steps which the original training took to the same losses; `seconds` and `original_seconds` are their time.
    """

    part: str
    procedure: str
    alpha: float
    values: tuple[float, ...]
    mean: Estimate
    censored: int
    runs: int
    cost: float
    original_cost: float
    seconds: float | None
    original_seconds: float | None
    short: int = 0  # runs whose original ended before it was as good: a mean of at most this one

    @property
    def median(self) -> float:
        """The median over the seeds."""
        return float(np.median(self.values))

    @property
    def sd(self) -> float | None:
        """The standard deviation over the seeds (n − 1); one seed has none."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    @property
    def statistics(self) -> tuple[str, ...]:
        """Median, mean, SD, minimum and maximum with two digits, as Martic2018, appendix C prints them."""
        numbers = (self.median, self.mean.value, self.sd, min(self.values), max(self.values))
        return tuple("–" if number is None else f"{number:.2f}" for number in numbers)


@dataclass(frozen=True)
class Bound:
    """The infimum of Martic2018, eq. 1 for a part at α: the least mean over the procedures, from scratch (1) included.

    `procedure` is the strongest one, "T" where nothing was faster than training from scratch; `censored` of its `runs`
    never reached the loss. It is an upper bound: a better procedure may exist.
    """

    part: str
    alpha: float
    procedure: str
    hardness: Estimate
    censored: int
    runs: int
    cost: float
    original_cost: float
    seconds: float | None
    original_seconds: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Hardness(Result, kind="hardness"):
    """How hard each part of a model is to complete: the cells of the tables in Martic2018, appendix C."""

    cells: tuple[Cell, ...]
    own_loss: Estimate | None = None  # of the model to complete, where the originals are other runs
    original_best: tuple[float, ...] = ()  # the least loss of each original

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts, in the order in which they were given."""
        return tuple(dict.fromkeys(cell.part for cell in self.cells))

    @property
    def procedures(self) -> tuple[str, ...]:
        """The procedures, in the order in which they were given."""
        return tuple(dict.fromkeys(cell.procedure for cell in self.cells))

    @property
    def alphas(self) -> tuple[float, ...]:
        """The shares of the original progress, from low to high."""
        return tuple(sorted({cell.alpha for cell in self.cells}))

    def of(self, part: str, alpha: float) -> tuple[Cell, ...]:
        """The cells of a part at α, one per procedure."""
        found = tuple(cell for cell in self.cells if (cell.part, cell.alpha) == (part, alpha))
        if not found:
            raise InputError(
                f"Nothing was measured for the part '{part}' at α = {alpha}. "
                f"Parts: {join_names(self.parts)}. α: {join_names([f'{known:g}' for known in self.alphas])}."
            )
        return found

    def cell(self, part: str, procedure: str, alpha: float) -> Cell:
        """The cell of a part, a procedure and α."""
        found = {cell.procedure: cell for cell in self.of(part, alpha)}
        if procedure not in found:
            raise InputError(
                f"The part '{part}' was not retrained by '{procedure}', only by {join_names(list(found))}."
            )
        return found[procedure]

    def bound(self, part: str, alpha: float) -> Bound:
        """The hardness of a part at α by Martic2018, eq. 1, and the strongest procedure."""
        best = min(self.of(part, alpha), key=lambda cell: cell.mean.value)
        faster = best.mean.value < 1
        return Bound(
            part=part,
            alpha=alpha,
            procedure=best.procedure if faster else SCRATCH,
            hardness=best.mean,
            censored=best.censored,
            runs=best.runs,
            cost=best.cost,
            original_cost=best.original_cost,
            seconds=best.seconds if faster else best.original_seconds,
            original_seconds=best.original_seconds,
        )

    def rows(self) -> list[tuple[str, str]]:
        bounds = [(part, [self.bound(part, alpha) for alpha in self.alphas]) for part in self.parts]
        return [
            (part, ", ".join(f"{b.hardness.value:.2f} by {b.procedure} at α = {b.alpha:g}" for b in found))
            for part, found in bounds
        ]

    def table(self) -> Table:
        """The table of Martic2018, appendix C, the highest α first, with intervals and the runs that failed."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        caption = "★ the strongest procedure; runs that never got there count as 1"
        table = Table(title="MC-hardness", caption=caption, box=SIMPLE_HEAD, collapse_padding=True)
        table.add_column("α", no_wrap=True)
        table.add_column("layer", min_width=8)
        table.add_column("procedure")
        for name in ("median", "mean", "SD", "min", "max", "95 %", "never"):
            table.add_column(name, justify="right", no_wrap=True)
        for alpha in reversed(self.alphas):
            for part in self.parts:
                strongest = self.bound(part, alpha).procedure
                for i, cell in enumerate(self.of(part, alpha)):
                    procedure = f"{cell.procedure} ★" if cell.procedure == strongest else cell.procedure
                    interval = f"{cell.mean.low:.2f}–{cell.mean.high:.2f}"
                    first = ("", "") if i else (f"{alpha:g}", part)
                    table.add_row(*first, procedure, *cell.statistics, interval, f"{cell.censored}/{cell.runs}")
            table.add_section()
        return table

    def draw(self) -> Figure:
        """Bars per part, coloured by α, a panel per procedure, as in Martic2018, figures 2 to 6."""
        from modelkeep.completion.bars import draw_bars

        return draw_bars(self)


def measure_hardness(
    retrainings: Sequence[Retraining],
    *,
    alphas: Sequence[float] = ALPHAS,
    own_loss: Estimate | None = None,
    seed: int = 0,
) -> Hardness:
    """The MC-hardness of what was retrained. `seed` is for the bootstrap intervals over the seeds of the retrainings.

    Where the originals are not the runs that made the model (its owner has only the weights, and such a model was
    trained from scratch for comparison), `own_loss` is the model's: ℓ*_α is a share of the way to that.

    >>> original, again = Curve((0, 10, 20), (1.0, 0.5, 0.0)), Curve((0, 10, 20), (0.9, 0.0, 0.0))
    >>> found = measure_hardness([Retraining("conv1", "T1", 0, original, again)])
    >>> found.bound("conv1", 1.0).hardness.value
    0.5
    """
    if not retrainings:
        raise bad_parameter("measure_hardness", "retrainings", "at least one retraining", retrainings)
    if not alphas:
        raise bad_parameter("measure_hardness", "alphas", "at least one share above 0 and at most 1", alphas)
    groups: dict[tuple[str, str], list[Retraining]] = {}
    for each in retrainings:
        groups.setdefault((each.part, each.procedure), []).append(each)
    own = None if own_loss is None else own_loss.value
    with measured(seed) as provenance:
        cells = [_cell(group, alpha, own, seed) for group in groups.values() for alpha in sorted(set(alphas))]
        return Hardness(
            provenance=provenance(),
            cells=tuple(cells),
            own_loss=own_loss,
            original_best=tuple(dict.fromkeys(each.original.best for each in retrainings)),
        )


def _cell(group: list[Retraining], alpha: float, own: float | None, seed: int) -> Cell:
    found = [ratio(each.original, each.retrained, alpha, own) for each in group]
    originals = [_original_cost(each.original, alpha, own) for each in group]
    cost = float(np.mean([ratio.value * steps for ratio, steps in zip(found, originals, strict=True)]))
    original_cost = float(np.mean(originals))
    values = _over_settings(group, [ratio.value for ratio in found])
    return Cell(
        part=group[0].part,
        procedure=group[0].procedure,
        alpha=alpha,
        values=values,
        mean=Estimate.bootstrap(values, seed),
        censored=sum(ratio.censored for ratio in found),
        runs=len(found),
        cost=cost,
        original_cost=original_cost,
        seconds=_seconds(cost, [each.seconds_per_step for each in group]),
        original_seconds=_seconds(original_cost, [each.original_seconds_per_step for each in group]),
        short=sum(ratio.short for ratio in found),
    )


def _original_cost(original: Curve, alpha: float, own: float | None) -> int:
    """What the original took; where it never got there, all its steps."""
    cost = original.cost(original.threshold(alpha, own))
    return original.steps[-1] if cost is None else cost


def _over_settings(group: list[Retraining], values: list[float]) -> tuple[float, ...]:
    """The mean over the settings for each seed: Martic2018, figure 4 averages 44 games "for each of 10 seeds"."""
    by_seed: dict[int, dict[str, float]] = {}
    for each, value in zip(group, values, strict=True):
        settings = by_seed.setdefault(each.seed, {})
        if each.setting in settings:
            raise InputError(f"The part '{each.part}' was retrained twice by {each.procedure} with seed {each.seed}.")
        settings[each.setting] = value
    if len({frozenset(settings) for settings in by_seed.values()}) > 1:
        raise InputError(
            f"The seeds of {group[0].procedure} on '{group[0].part}' have different settings, so that their means "
            "cannot be compared. Leave a setting out for all seeds or for none."
        )
    return tuple(float(np.mean(list(settings.values()))) for settings in by_seed.values())


def _seconds(cost: float, seconds_per_step: Sequence[float | None]) -> float | None:
    """The time of `cost` steps, by the runs that were timed."""
    known = [seconds for seconds in seconds_per_step if seconds is not None]
    return cost * float(np.mean(known)) if known else None
