"""What a paper study gives: ours beside the paper's, and a verdict on each of the paper's claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modelkeep.core.results import Estimate, Result
from modelkeep.study.record import Record

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, what we found, and whether it holds (None: our figures cannot tell)."""

    says: str
    found: str
    holds: bool | None

    def __str__(self) -> str:
        return f"{self.verdict}: {self.says} Here: {self.found}"

    @property
    def verdict(self) -> str:
        """In one word."""
        return {True: "holds", False: "does not hold", None: "unclear"}[self.holds]


@dataclass(frozen=True, kw_only=True, eq=False)
class PaperResult(Result, kind="paper-result"):
    """The part that tables and curves share. The study fills in its place in the paper and what other code made."""

    study: str
    where: str = ""
    claims: tuple[Claim, ...] = ()
    other_code: str = ""

    def _lay_out(self, columns: list[str], lines: list[list[str]], notes: Sequence[str]) -> Table:
        from rich.table import Table
        from rich.text import Text

        from modelkeep.papers.bibliography import cite

        p = self.provenance
        below = [f"seed {p.seed} · {p.seconds:.2f} s · modelkeep {p.version} · 95 % intervals"]
        below += [f"Made by other code: {self.other_code}."] if self.other_code else []
        below += [*notes, *map(str, self.claims), *cite(self.where)]
        title = f"{self.study}: {self.where}"
        table = Table(*columns, title=title, caption=Text("\n".join(below)), caption_justify="left", min_width=78)
        for line in lines:
            table.add_row(*map(Text, line))
        return table


def values(records: Iterable[Record], **parameters: Any) -> list[Any]:
    """What the finished trials with these parameters gave: the list of their values."""
    return [
        record.value
        for record in records
        if record.state == "done" and all(record.parameters.get(key) == value for key, value in parameters.items())
    ]


def mean(numbers: Sequence[float], seed: int) -> Estimate | None:
    """Their mean with its bootstrap interval; None where there is none."""
    return Estimate.bootstrap(numbers, seed) if len(numbers) else None


def above(says: str, where: str, larger: Estimate | None, smaller: Estimate | None) -> Claim:
    """The claim that one number exceeds another: it holds, or not, where the two intervals do not meet.

    >>> above("A beats B.", "A and B", Estimate(0.9, 0.8, 1.0, 9), Estimate(0.2, 0.1, 0.3, 9)).verdict
    'holds'
    """
    if larger is None or smaller is None:
        return Claim(says, f"{where}: a trial is missing.", None)
    apart = larger.low > smaller.high or larger.high < smaller.low
    return Claim(
        says,
        f"{where}: {show_estimate(larger)} and {show_estimate(smaller)}.",
        larger.low > smaller.high if apart else None,
    )


def show_number(value: float | None) -> str:
    """A number of the paper."""
    return "–" if value is None else f"{value:.4g}"


def show_estimate(found: Estimate | None) -> str:
    """Ours with its interval."""
    if found is None:
        return "missing"
    return f"{found.value:.3f}" + (f" [{found.low:.3f}, {found.high:.3f}]" if found.low < found.high else "")
