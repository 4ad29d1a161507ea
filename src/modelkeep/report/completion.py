"""The page of completion: how hard each part of a model is to get back, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator

from modelkeep.completion.hardness import SCRATCH, Bound, Hardness
from modelkeep.completion.price import Price
from modelkeep.completion.procedures import PROCEDURES
from modelkeep.core.results import Estimate
from modelkeep.report.page import Card, Note, Page, Part, Table
from modelkeep.report.picture import Picture
from modelkeep.report.verdicts import completion_verdict, hardest_first

LEAD = (
    "An attacker has all of the model but one part, and trains to get it back. How much training does that take, as a "
    "share of what it takes to train the whole from scratch? 1 means that the missing part protects the model as well "
    "as keeping all of it would; 0 means that it protects nothing."
)


def completion_page(hardness: Hardness, price: Price | None = None, *, subject: str = "this model") -> Page:
    """The page about `subject`. With a `price`, and where the seconds per step were measured, it also tells money."""
    seeds = max(len(cell.values) for cell in hardness.cells)
    top = hardness.alphas[-1]
    wanted = "a model as good as the original ever was" if top == 1 else f"a model with {_progress(top)}"
    costs = f" Costs are at {_rate(price)} of the machine that measured." if price is not None else ""
    picture = Picture.of(
        hardness.draw(), "Bars of hardness per part, coloured by α, by each procedure", _caption(hardness, seeds)
    )
    return Page(
        result=hardness,
        title=f"How hard is {subject} to complete?",
        verdict=completion_verdict(hardness),
        lead=LEAD,
        cards=tuple(_cards(hardness, price)),
        notes=(Note("medium", "caution", "An upper bound only", _caution(hardness, seeds)),),
        parts=(
            Part("By each procedure", pictures=(picture,)),
            Part(
                "What each part protects",
                f'With α = {top:g}: {wanted}. "240 of 800" means 240 steps to complete the model, where the original '
                f"training took 800 to be as good.{costs}",
                tables=(
                    _bounds(hardness, top, price),
                    *(
                        _bounds(hardness, alpha, price, f"For less, α = {alpha:g}: {_progress(alpha)}")
                        for alpha in reversed(hardness.alphas[:-1])
                    ),
                ),
            ),
            Part(
                "All figures",
                "As in Martic2018, appendix C: statistics over the seeds, the strongest procedure of each part marked.",
                tables=tuple(_cells(hardness, alpha) for alpha in reversed(hardness.alphas)),
            ),
        ),
        pictures={"figure.png": picture},
    )


def _cards(hardness: Hardness, price: Price | None) -> Iterator[Card]:
    bounds = hardest_first(hardness)
    named = {"": bounds[0]} if len(bounds) == 1 else {"hardest: ": bounds[0], "easiest: ": bounds[-1]}
    for title, bound in named.items():
        seeds = f", {bound.hardness.n} seeds" if bound.hardness.n > 1 else ""
        yield Card(title + bound.part, f"{bound.hardness.value:.2f}", _range(bound.hardness) + seeds, bound.hardness)
    hardest = bounds[0]
    if price is not None and hardest.seconds is not None:
        told = f"{hardest.cost:,.0f} steps, {_duration(hardest.seconds)} at {_rate(price)}"
        yield Card(f"to get {hardest.part} back", price.of(hardest.seconds), told)


def _caution(hardness: Hardness, seeds: int) -> str:
    tried = "; ".join(
        f"{name}: {PROCEDURES[name].title}" if name in PROCEDURES else name for name in hardness.procedures
    )
    doubt = "1 seed gives no interval" if seeds == 1 else f"{seeds} seeds give only rough intervals"
    return (
        f"For each part the fastest of what was tried counts ({tried}). A faster way may exist, so a low number shows "
        "that a cut protects little, and a high one does not prove that it protects much. The strongest procedure was "
        f"chosen by the same runs that measure it, and {doubt}."
    )


def _caption(hardness: Hardness, seeds: int) -> str:
    last = [cell for cell in hardness.cells if cell.alpha == hardness.alphas[-1]]
    censored, runs = sum(cell.censored for cell in last), sum(cell.runs for cell in last)
    ended = f" At α = {hardness.alphas[-1]:g}, {censored} of {runs} runs ended before they got there; they count as 1."
    return (
        f"The mean over {seeds} seed{'' if seeds == 1 else 's'}; a whisker is one standard deviation. α is the share "
        "of the original progress that is wanted back. Hardness at α compares with how long the original took to get "
        f"that far, so it may fall where α rises.{ended if censored else ''}"
    )


def _bounds(hardness: Hardness, alpha: float, price: Price | None, summary: str = "") -> Table:
    """The strongest procedure for each part, what it takes, and what that costs."""
    timed = any(bound.seconds is not None for bound in hardest_first(hardness))
    header = ["missing part", "strongest", "hardness (95 %)", "steps", *["time"] * timed]
    header += [*["cost"] * (price is not None), "not reached"]
    rows = []
    for part in hardness.parts:
        bound = hardness.bound(part, alpha)
        row = [
            part,
            "from scratch" if bound.procedure == SCRATCH else bound.procedure,
            f"{bound.hardness.value:.2f} ({_range(bound.hardness)})",
            f"{bound.cost:,.0f} of {bound.original_cost:,.0f}",
        ]
        if timed:
            row.append("not timed" if bound.seconds is None else _duration(bound.seconds))
        if price is not None:
            row.append(_cost(bound, price))
        rows.append([*row, f"{bound.censored} of {bound.runs}"])
    return Table(rows, header, summary)


def _cost(bound: Bound, price: Price) -> str:
    if bound.seconds is None:
        return "not timed"
    whole = "" if bound.original_seconds is None else f" of {price.of(bound.original_seconds)}"
    return f"{price.of(bound.seconds)}{whole}"


def _cells(hardness: Hardness, alpha: float) -> Table:
    header = ("part", "procedure", "median", "mean", "SD", "min", "max", "95 % of the mean", "not reached")
    rows = []
    for part in hardness.parts:
        strongest = hardness.bound(part, alpha).procedure
        for cell in hardness.of(part, alpha):
            name = f"{cell.procedure}{' ★' if cell.procedure == strongest else ''}"
            rows.append([part, name, *cell.statistics, _range(cell.mean), f"{cell.censored} of {cell.runs}"])
    return Table(rows, header, f"MC-hardness(α = {alpha:g})")


def _range(estimate: Estimate) -> str:
    """The interval over the seeds; one seed has none.

    >>> _range(Estimate(0.83, 0.83, 0.83, 1)), _range(Estimate(0.83, 0.7, 0.9, 5))
    ('no interval: 1 seed', '0.70 to 0.90')
    """
    if estimate.n == 1:
        return "no interval: 1 seed"
    return f"{estimate.low:.2f} to {estimate.high:.2f}"


def _progress(alpha: float) -> str:
    return f"{100 * alpha:g} % of the original progress"


def _rate(price: Price) -> str:
    return f"{price.currency}\u00a0{price.per_hour:,.2f} an hour"


def _duration(seconds: float) -> str:
    """Seconds as a person reads them.

    >>> _duration(0.5), _duration(90), _duration(9000)
    ('0.50 s', '1.5 min', '2.5 h')
    """
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
