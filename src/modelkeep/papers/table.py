"""PaperTable: a table of a paper made again."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modelkeep.core.results import Estimate
from modelkeep.papers.result import PaperResult, show_estimate, show_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True)
class Cell:
    """One number of a table: ours (None: not measured here, the note says why) beside the paper's (None: not there)."""

    row: str
    column: str
    ours: Estimate | None
    paper: float | None
    note: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class PaperTable(PaperResult, kind="paper-table"):
    """A table of a paper made again, one `Cell` per number."""

    cells: tuple[Cell, ...]

    def pages(self, folder: Path) -> tuple[Path, ...]:
        """Write what there is to read beside the table, a file each; most tables need nothing more."""
        return ()

    def rows(self) -> list[tuple[str, str]]:
        return [(f"{c.row}: {c.column}", f"{_ours(c)} · paper {show_number(c.paper)}") for c in self.cells]

    def table(self) -> Table:
        lines, notes, before = [], [], ""
        for row in _unique(c.row for c in self.cells):
            cells = [c for c in self.cells if c.row == row]
            if all(c.ours is None for c in cells):  # a line is enough for what only the paper has
                printed = ", ".join(f"{c.column} {show_number(c.paper)}" for c in cells if c.paper is not None)
                notes.append(f"{row}: {cells[0].note or 'missing'}. Paper: {printed or 'nothing'}.")
                continue
            for c in cells:
                lines.append(["" if row == before else row, c.column, _ours(c), show_number(c.paper)])
                before = row
        return self._lay_out(["", "", "ours", "paper"], lines, notes)

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


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _ours(cell: Cell) -> str:
    if cell.ours is None:
        return cell.note or "missing"
    return show_estimate(cell.ours) + (f" ({cell.note})" if cell.note else "")


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
