"""PaperCurves: a figure of a paper made again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modelkeep.core.results import Estimate
from modelkeep.papers.result import PaperResult, mean, show_estimate, show_number
from modelkeep.study.study import StudyResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

Curve = tuple[Estimate | None, ...]
"""One estimate per point; None where its trial is missing."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PaperCurves(PaperResult, kind="paper-curves"):
    """A figure of a paper made again: named curves over `x`, a point None where its trial is missing.

    `paper` has the paper's own values of a curve where it prints them or gives a formula; where it has only a
    picture, its `claims` are what can be checked.
    """

    x_label: str
    y_label: str
    x: tuple[float, ...]
    series: dict[str, Curve]
    paper: dict[str, tuple[float, ...]]
    log_x: bool = False

    def rows(self) -> list[tuple[str, str]]:
        return [
            (f"{name}, {self.x_label} {x:g}", f"{show_estimate(point)} · paper {show_number(paper)}")
            for name in self.series
            for x, point, paper in zip(self.x, self.series[name], self._paper_values(name), strict=True)
        ]

    def table(self) -> Table:
        lines = []
        for i, x in enumerate(self.x):
            line = [f"{x:g}"]
            for name, points in self.series.items():
                paper = self._paper_values(name)[i]
                line.append(_short(points[i]) + ("" if paper is None else f"\npaper {paper:.3f}"))
            lines.append(line)
        return self._lay_out([self.x_label, *self.series], lines, [])

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
        if len(self.series) > len(plots.PALETTE):  # no room is left among the curves
            legend.set_loc("upper left")
            legend.set_bbox_to_anchor((1, 1))
        return drawn

    def _paper_values(self, name: str) -> tuple[float | None, ...]:
        return self.paper.get(name, (None,) * len(self.x))


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


def _short(found: Estimate | None) -> str:
    return "missing" if found is None else f"{found.value:.3f} ±{(found.high - found.low) / 2:.3f}"
