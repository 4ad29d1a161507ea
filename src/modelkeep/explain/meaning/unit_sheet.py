"""UnitSheet: what some units at a slice stand for, on one sheet."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from modelkeep.core import plots
from modelkeep.core.results import Estimate, Result, Tensor
from modelkeep.explain.meaning.concept_sensitivity import ConceptSensitivity
from modelkeep.explain.meaning.concepts import Concept
from modelkeep.explain.meaning.exemplars import Exemplars
from modelkeep.explain.meaning.visualisation import Visualised

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

CELLS = 20  # of a heat map along a side
SHOWN = 4  # features of an exemplar of a table that the sheet has room for


@dataclass(frozen=True)
class Mover:
    """A feature of a table and the change of a unit per standard deviation of it."""

    name: str
    change: Estimate


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitSheet(Result, kind="unit-sheet"):
    """Units at a slice, those of the largest attribution first, each with what it may stand for.

    `influence` is that of each unit on the quantity, over `examples`. `exemplars` are the inputs that activate it
    most. With them come, for images, `heat: (units, count, h, w)`, what each pixel adds to the activation compared
    with the mean image; for tables, `standout: (units, count, features)`, their features in standard deviations from
    the mean, and the `movers`, the features that change the unit most. `optimised` holds an input per unit (and, for
    scale, compares it with the exemplars and at most 1,024 more examples), `concepts` what the units were compared
    with, and `sensitivity` whether the quantity depends on those.
    """

    quantity: str
    examples: int
    influence: tuple[Estimate, ...]
    exemplars: Exemplars = field(repr=False)
    heat: Tensor | None = field(repr=False)
    standout: Tensor | None = field(repr=False)
    movers: tuple[tuple[Mover, ...], ...] = field(repr=False)
    optimised: tuple[Visualised, ...] = field(repr=False)
    concepts: tuple[Concept, ...] = field(repr=False)
    sensitivity: ConceptSensitivity | None = field(repr=False)

    @property
    def units(self) -> tuple[int, ...]:
        """The numbers of the channels, or of the units."""
        return self.exemplars.units

    def rows(self) -> list[tuple[str, str]]:
        rows = [("explains", self.quantity), ("at", self.exemplars.slice), ("examples", str(self.examples))]
        for i, influence in enumerate(self.influence):
            parts = [f"influence {influence}", f"exemplars {self._labels(i)}"]
            if self.movers:
                parts.append("moved by " + ", ".join(f"{m.name} {m.change.value:+.3g}" for m in self.movers[i][:3]))
            parts += [f"{c.name} {c.unit(self.units[i]).value:.2f}" for c in self.concepts if self._tells(c, i)]
            rows.append((self.exemplars.unit_name(i), "; ".join(parts)))
        return rows + (self.sensitivity.rows()[1:] if self.sensitivity is not None else [])

    def draw(self) -> Figure:
        """A row per unit: its influence, its exemplars, what moves it, an optimised input, and the concepts."""
        image = self.heat is not None
        columns = {self._describe: 2.2}
        if image:
            columns |= {self._images: 0.3 + 1.2 * self.exemplars.index.shape[1], self._optimised_image: 2.4}
        else:
            columns |= {self._movers: 3.4, self._exemplar_rows: 4.4, self._optimised_row: 3.8}
        if self.concepts:
            columns[self._concepts] = 3.2
        drawn = plots.figure(sum(columns.values()), 0.7 + 2.5 * len(self.units))
        title = f"What the units of '{self.exemplars.slice}' stand for that move {self.quantity} most"
        drawn.suptitle(title, x=0.01, ha="left", color=plots.INK, fontsize=12, fontweight="bold")
        if image:
            legend = (
                "red: adds to the activation, compared with the mean image · blue: takes from it · "
                "frame: what the activation depends on"
            )
            drawn.supxlabel(legend, x=0.01, ha="left", color=plots.MUTED, fontsize=8)
        rows = drawn.subfigures(len(self.units), 1, squeeze=False)[:, 0]
        for i, row in enumerate(rows):
            # A figure of its own for each cell, so that the columns stand below each other, however long their labels.
            cells = row.subfigures(1, len(columns), squeeze=False, width_ratios=list(columns.values()))[0]
            for paint, cell in zip(columns, cells, strict=True):
                paint(cell, i)
        return drawn

    def _labels(self, i: int) -> str:
        """The classes of a unit's exemplars, each once."""
        classes = self.exemplars.classes
        return ", ".join(dict.fromkeys(classes[label] for label in self.exemplars.labels[i].tolist()))

    def _describe(self, cell: SubFigure, i: int) -> None:
        """The unit's name and influence, and its activation over the data, from the least to the most."""
        text, ax = cell.subplots(2, 1, height_ratios=[1, 0.9])
        text.set_axis_off()
        influence = self.influence[i]
        text.text(0, 1, self.exemplars.unit_name(i), va="top", color=plots.INK, fontsize=11, fontweight="bold")
        note = f"influence {influence.value:+.3g}\n{influence.low:+.3g} to {influence.high:+.3g} (n={influence.n})"
        text.text(0, 0.65, note, va="top", color=plots.MUTED, fontsize=8)
        plots.style(ax, x_label="percentile of the data", y_label="activation")
        ax.fill_between(range(101), self.exemplars.percentiles[i].tolist(), color=plots.PALETTE[0], alpha=0.3, lw=0)
        ax.plot(range(101), self.exemplars.percentiles[i].tolist(), color=plots.PALETTE[0], lw=1.2)
        ax.set_xticks([0, 50, 100])

    def _images(self, cell: SubFigure, i: int) -> None:
        """Exemplars above, and below each the pixels that move the unit."""
        assert self.heat is not None
        inputs, bounds = self.exemplars.inputs[i], _range(self.exemplars.inputs[i], self.exemplars.bounds)
        heat = plots.in_cells(self.heat[i], CELLS)
        # A few specks must not make all else pale.
        limit = float(heat.abs().flatten().quantile(0.99)) or float(heat.abs().max()) or 1.0
        above, below = cell.subplots(2, len(inputs), squeeze=False)
        for k, image in enumerate(inputs):
            plots.paint_image(above[k], image, bounds)
            plots.paint_heat(below[k], image, heat[k], limit, bounds)
            name = self.exemplars.classes[int(self.exemplars.labels[i, k])]
            most = "max " if self.exemplars.spatial else ""  # beside the mean of the optimised input
            title = f"{textwrap.shorten(name, 14)}: {most}{float(self.exemplars.activation[i, k]):.2g}"
            above[k].set_title(title, color=plots.INK, fontsize=8)
            if self.exemplars.box is not None:
                top, left, bottom, right = self.exemplars.box[i, k].tolist()
                corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
                edges = zip(*((x - 0.5, y - 0.5) for x, y in corners), strict=True)
                above[k].plot(*edges, color=plots.PALETTE[4], lw=1.2)
        for ax, label in ((above[0], "exemplars"), (below[0], "what adds to it")):
            ax.text(-0.08, 0.5, label, transform=ax.transAxes, rotation=90, ha="right", va="center", fontsize=8)

    def _movers(self, cell: SubFigure, i: int) -> None:
        ax = plots.axes(cell, "moved by", "change per standard deviation", grid="x")
        _signed_bars(ax, [m.name for m in self.movers[i]], [m.change for m in self.movers[i]])

    def _exemplar_rows(self, cell: SubFigure, i: int) -> None:
        """Each exemplar's features that stand out most, in standard deviations from the mean."""
        assert self.standout is not None
        ax = cell.subplots()
        ax.set_axis_off()
        ax.set_title(
            "strongest exemplars, in standard deviations", loc="left", color=plots.INK, fontsize=11, fontweight="bold"
        )
        standout = self.standout[i]
        columns = standout.abs().mean(dim=0).argsort(descending=True, stable=True)[:SHOWN].tolist()
        names = self.exemplars.features or [f"feature {j}" for j in range(standout.shape[1])]
        labels = [self.exemplars.classes[label] for label in self.exemplars.labels[i].tolist()]
        table = ax.table(
            [[f"{float(value):+.1f}" for value in example[columns]] for example in standout],
            rowLabels=[
                f"{label}: {a:.2g}" for label, a in zip(labels, self.exemplars.activation[i].tolist(), strict=True)
            ],
            colLabels=[textwrap.fill(names[j], 11) for j in columns],
            bbox=[0.2, 0.05, 0.8, 0.9],  # type: ignore[arg-type]
            edges="horizontal",
            cellLoc="center",
        )
        table.auto_set_font_size(False)
        table.set_fontsize(8)
        for (line, _), box in table.get_celld().items():
            box.set_edgecolor(plots.FAINT)
            box.set_height(0.3 if line == 0 else 0.14)

    def _optimised_image(self, cell: SubFigure, i: int) -> None:
        found, ax = self.optimised[i], cell.subplots()
        plots.paint_image(ax, found.input, _range(found.input, found.bounds))
        ax.set_title(self._optimum(i), color=plots.INK, fontsize=8)

    def _optimised_row(self, cell: SubFigure, i: int) -> None:
        moved = self.optimised[i].furthest_features(len(self.movers[i]))
        ax = plots.axes(cell, "optimised input", f"standard deviations from the mean\n{self._optimum(i)}", grid="x")
        _signed_bars(ax, [name for name, _ in moved], [Estimate(by, by, by, 1) for _, by in moved])

    def _optimum(self, i: int) -> str:
        """What the unit is at the optimised input, and for scale at the best example."""
        found, mean = self.optimised[i], "mean " if self.exemplars.spatial else ""
        return (
            "never active"
            if found.flat
            else f"optimised: {mean}{found.value:.2g},\nbest example: {mean}{found.best_value:.2g}"
        )

    def _concepts(self, cell: SubFigure, i: int) -> None:
        """How often it is more active on an example of each concept than on another; grey where that may be chance."""
        ax = plots.axes(cell, "concepts", "how often it is more active with it", grid="x")
        for k, c in enumerate(self.concepts):
            told = c.unit(self.units[i])
            ax.barh(
                k, told.value - 0.5, left=0.5, height=0.6, color=plots.PALETTE[0] if self._tells(c, i) else plots.FAINT
            )
            ax.plot([told.low, told.high], [k, k], color=plots.INK, lw=1.2, marker="|", ms=6)
        ax.axvline(0.5, color=plots.MUTED, lw=1)
        ax.set_yticks(range(len(self.concepts)), [textwrap.fill(c.name, 16) for c in self.concepts], color=plots.INK)
        ax.set_ylim(len(self.concepts) - 0.4, -0.6)
        ax.set_xlim(0, 1)

    def _tells(self, c: Concept, i: int) -> bool:
        """Whether the unit, beyond chance, tells a concept that is there."""
        return c.there and c.unit(self.units[i]).excludes(0.5)


def _range(images: torch.Tensor, bounds: tuple[float, float] | None) -> tuple[float, float]:
    return bounds if bounds is not None else (float(images.min()), float(images.max()))


def _signed_bars(ax: Axes, names: list[str], estimates: list[Estimate]) -> None:
    """Bars to the right of 0 (red) or to the left of it (blue), with whiskers, the first at the top."""
    for k, e in enumerate(estimates):
        ax.barh(k, e.value, height=0.6, color=plots.PALETTE[1] if e.value > 0 else plots.PALETTE[0], alpha=0.85)
        ax.plot([e.low, e.high], [k, k], color=plots.INK, lw=1.2)
    ax.axvline(0, color=plots.MUTED, lw=1)
    ax.set_yticks(range(len(names)), names, color=plots.INK, fontsize=8)
    ax.invert_yaxis()
