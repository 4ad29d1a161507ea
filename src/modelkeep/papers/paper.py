"""Paper studies: a table or figure of a paper that anybody can make again, and ours beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from modelkeep.core.errors import bad_parameter
from modelkeep.core.results import Estimate, Result
from modelkeep.study.record import Record
from modelkeep.study.study import Study, StudyResult
from modelkeep.study.trials import Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

Size = Literal["small", "medium", "paper"]
"""`small` is a coffee break on two cores, `medium` a working day; `paper` has the paper's own settings."""

Curve = tuple[Estimate | None, ...]
"""One estimate per point; None where its trial is missing."""


@dataclass(frozen=True)
class PaperStudy:
    """A table or figure of a paper: where it stands, what it shows, its trials, and the report on them.

    `trials(size, seed)` and `report` are plain functions. The report is made of whatever trials are done; what is
    missing it marks as missing.
    """

    name: str
    where: str
    shows: str
    trials: Callable[[Size, int], Sequence[Trial]]
    report: Callable[[StudyResult], PaperTable | PaperCurves]
    sizes: tuple[Size, ...] = ("small", "paper")

    def study(self, size: Size, seed: int) -> Study:
        """Its trials under a name of their own, so that one ledger keeps all sizes and seeds."""
        if size not in self.sizes:
            raise bad_parameter(f"The study '{self.name}'", "size", " or ".join(map(repr, self.sizes)), size)
        return Study(f"{self.name}-{size}-seed-{seed}", self.trials(size, seed))


@dataclass(frozen=True)
class Cell:
    """One number of a table: ours (None: not measured here, the note says why) beside the paper's (None: not there)."""

    row: str
    column: str
    ours: Estimate | None
    paper: float | None
    note: str = ""


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
class PaperTable(Result, kind="paper-table"):
    """A table of a paper made again, one `Cell` per number."""

    study: str
    where: str
    cells: tuple[Cell, ...]
    claims: tuple[Claim, ...] = ()

    def pages(self, folder: Path) -> tuple[Path, ...]:
        """Write what there is to read beside the table, a file each; most tables need nothing more."""
        return ()

    def rows(self) -> list[tuple[str, str]]:
        return [(f"{c.row}: {c.column}", f"{_ours(c)} · paper {_number(c.paper)}") for c in self.cells]

    def table(self) -> Table:
        lines, notes, before = [], [], ""
        for row in _unique(c.row for c in self.cells):
            cells = [c for c in self.cells if c.row == row]
            if all(c.ours is None for c in cells):  # a line is enough for what only the paper has
                printed = ", ".join(f"{c.column} {_number(c.paper)}" for c in cells if c.paper is not None)
                notes.append(f"{row}: {cells[0].note or 'missing'}. Paper: {printed or 'nothing'}.")
                continue
            for c in cells:
                lines.append(["" if row == before else row, c.column, _ours(c), _number(c.paper)])
                before = row
        return _table(self, ["", "", "ours", "paper"], lines, [*notes, *map(str, self.claims)])

    def draw(self) -> Figure:
        from modelkeep.core import plots

        columns, rows = _unique(c.column for c in self.cells), _unique(c.row for c in self.cells)
        down = math.ceil(len(columns) / 5)
        across = math.ceil(len(columns) / down)
        drawn = plots.figure(1.6 + 2.1 * across, down * (1.0 + 0.26 * len(rows)))
        panels = drawn.subplots(down, across, squeeze=False, sharey=True)
        for ax in panels.flat[len(columns) :]:
            ax.set_visible(False)
        for ax, column in zip(panels.flat, columns, strict=False):
            _panel(ax, column, rows, [c for c in self.cells if c.column == column])
        handles, labels = panels.flat[0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower right", ncols=2, frameon=False, fontsize=9)
        return drawn


@dataclass(frozen=True, kw_only=True, eq=False)
class PaperCurves(Result, kind="paper-curves"):
    """A figure of a paper made again: named curves over `x`, a point None where its trial is missing.

    `paper` has the paper's own values of a curve where it prints them or gives a formula; where it has only a
    picture, its `claims` are what can be checked.
    """

    study: str
    where: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    series: dict[str, Curve]
    paper: dict[str, tuple[float, ...]]
    claims: tuple[Claim, ...] = ()
    log_x: bool = False

    def rows(self) -> list[tuple[str, str]]:
        return [
            (f"{name}, {self.x_label} {x:g}", f"{_estimate(point)} · paper {_number(paper)}")
            for name in self.series
            for x, point, paper in zip(self.x, self.series[name], self._printed(name), strict=True)
        ]

    def table(self) -> Table:
        lines = []
        for i, x in enumerate(self.x):
            line = [f"{x:g}"]
            for name, points in self.series.items():
                paper = self._printed(name)[i]
                line.append(_short(points[i]) + ("" if paper is None else f"\npaper {paper:.3f}"))
            lines.append(line)
        return _table(self, [self.x_label, *self.series], lines, list(map(str, self.claims)))

    def draw(self) -> Figure:
        from modelkeep.core import plots

        drawn = plots.figure()
        title = "lines: the paper's, dots: ours" if self.paper else ""
        ax = plots.axes(drawn, title, self.x_label, self.y_label)
        for i, (name, points) in enumerate(self.series.items()):
            colour, ls = plots.PALETTE[i % len(plots.PALETTE)], "-" if i < len(plots.PALETTE) else "--"
            low, value, high = zip(*((e.low, e.value, e.high) if e else (math.nan,) * 3 for e in points), strict=True)
            if name in self.paper:
                ax.plot(self.x, self.paper[name], color=colour, lw=1.5, label=name)
                ax.vlines(self.x, low, high, color=colour, lw=1)
                ax.plot(self.x, value, color=colour, lw=0, marker="o", ms=4)
            else:
                ax.fill_between(self.x, low, high, color=colour, alpha=0.18, lw=0)
                ax.plot(self.x, value, color=colour, ls=ls, lw=2, marker="o", ms=4, label=name)
        ax.axhline(0, color=plots.MUTED, lw=0.8)
        if self.log_x:
            ax.set_xscale("log")
            ax.set_xticks(self.x, [f"{x:g}" for x in self.x])
            ax.minorticks_off()
        legend = ax.legend(frameon=False, fontsize=8, labelcolor=plots.INK)
        if len(self.series) > len(plots.PALETTE):  # so many leave no room among them
            legend.set_loc("upper left")
            legend.set_bbox_to_anchor((1, 1))
        return drawn

    def _printed(self, name: str) -> tuple[float | None, ...]:
        return self.paper.get(name, (None,) * len(self.x))


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


def curves(
    result: StudyResult, *, x: str, y: str, name: Callable[[dict[str, Any]], str]
) -> tuple[tuple[float, ...], dict[str, Curve]]:
    """The mean of `value[y]`, a list of runs, over the parameter `x`: one curve per name of a trial."""
    ticks = sorted({record.parameters[x] for record in result.records})
    found: dict[str, list[Estimate | None]] = {}
    for record in result.records:
        curve = found.setdefault(name(record.parameters), [None] * len(ticks))
        if record.state == "done":
            curve[ticks.index(record.parameters[x])] = mean(record.value[y], record.seed)
    return tuple(ticks), {key: tuple(curve) for key, curve in found.items()}


def above(says: str, where: str, larger: Estimate | None, smaller: Estimate | None) -> Claim:
    """The claim that one number exceeds another: it holds, or not, where the two intervals do not meet.

    >>> above("A beats B.", "A and B", Estimate(0.9, 0.8, 1.0, 9), Estimate(0.2, 0.1, 0.3, 9)).verdict
    'holds'
    """
    if larger is None or smaller is None:
        return Claim(says, f"{where}: a trial is missing.", None)
    apart = larger.low > smaller.high or larger.high < smaller.low
    return Claim(
        says, f"{where}: {_estimate(larger)} and {_estimate(smaller)}.", larger.low > smaller.high if apart else None
    )


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _estimate(found: Estimate | None) -> str:
    if found is None:
        return "missing"
    return f"{found.value:.3f}" + (f" [{found.low:.3f}, {found.high:.3f}]" if found.low < found.high else "")


def _short(found: Estimate | None) -> str:
    return "missing" if found is None else f"{found.value:.3f} ±{(found.high - found.low) / 2:.3f}"


def _ours(cell: Cell) -> str:
    if cell.ours is None:
        return cell.note or "missing"
    return _estimate(cell.ours) + (f" ({cell.note})" if cell.note else "")


def _table(result: PaperTable | PaperCurves, columns: list[str], lines: list[list[str]], notes: list[str]) -> Table:
    from rich.table import Table
    from rich.text import Text

    p = result.provenance
    notes = [f"seed {p.seed} · {p.seconds:.2f} s · modelkeep {p.version} · 95 % intervals", *notes]
    title, caption = f"{result.study}: {result.where}", Text("\n".join(notes))
    table = Table(*columns, title=title, caption=caption, caption_justify="left", min_width=78)
    for line in lines:
        table.add_row(*map(Text, line))
    return table


def _panel(ax: Axes, title: str, rows: list[str], cells: list[Cell]) -> None:
    """One column of a table as dots: ours with its interval, the paper's as a diamond."""
    from modelkeep.core import plots

    ours = [(rows.index(c.row), c.ours) for c in cells if c.ours is not None]
    paper = [(rows.index(c.row), c.paper) for c in cells if c.paper is not None]
    ax.hlines([y for y, _ in ours], [e.low for _, e in ours], [e.high for _, e in ours], color=plots.PALETTE[0])
    ax.plot([e.value for _, e in ours], [y for y, _ in ours], "o", color=plots.PALETTE[0], ms=5, label="ours")
    ax.plot([v for _, v in paper], [y for y, _ in paper], "D", mfc="none", mec=plots.PALETTE[1], ms=6, label="paper")
    ax.set_title(title, loc="left", color=plots.INK, fontsize=9)
    ax.set_yticks(range(len(rows)), rows, color=plots.INK)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.tick_params(colors=plots.MUTED, labelsize=8, length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.grid(color=plots.FAINT)
    ax.set_axisbelow(True)
