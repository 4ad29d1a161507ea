"""Side by side: several quantities at one slice in one picture, on one scale."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from modelkeep.core import plots
from modelkeep.explain import Explained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from modelkeep.core.results import Estimate

CELLS = 20  # of the map of a large picture, along a side
FOR, AGAINST = "#c94741", "#3783bb"  # the ends of the diverging scale, a little softer


def maps(found: Sequence[Explained], titles: Sequence[str]) -> Figure | None:
    """The examples in columns, and a row of signed maps for each quantity; None where there is no space to map.

    A feature map is smaller than the picture and is stretched over it.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    images = found[0].inputs
    if images.ndim != 4 or images.shape[1] not in (1, 3) or found[0].influence.ndim != 4:
        return None
    bounds = found[0].bounds if found[0].bounds is not None else (float(images.min()), float(images.max()))
    heat = torch.stack([_legible(explained) for explained in found])
    # A few loud pixels must not hide the rest: the strongest half per cent shares the end of the scale.
    strength = heat.abs().flatten().sort().values
    limit = float(strength[int(0.995 * (len(strength) - 1))]) or float(strength[-1]) or 1.0

    n, height, width = len(images), *images.shape[2:]
    side = min(max(8.0 / n, 1.1), 2.2)
    drawn = plots.figure(side * n + 1.6, side * height / width * (len(found) + 1) + 0.45)
    cells = drawn.subplots(len(found) + 1, n, squeeze=False)
    for i, title in enumerate(titles):
        plots.paint_image(cells[0][i], images[i], bounds)
        cells[0][i].set_title(title, color=plots.INK, fontsize=8)
        for row in range(len(found)):
            plots.paint_heat(cells[row + 1][i], images[i], heat[row, i].clamp(-limit, limit), limit, bounds)
    for row, explained in enumerate(found):
        name = textwrap.fill(explained.quantity, 18)
        cells[row + 1][0].annotate(
            name, (0, 0.5), (-8, 0), xycoords="axes fraction", textcoords="offset points", ha="right", va="center",
            color=plots.INK, fontsize=9, fontweight="bold",
        )  # fmt: skip
    scale = ScalarMappable(Normalize(-limit, limit), plots.DIVERGING)
    bar = drawn.colorbar(scale, ax=list(cells[1:].flat), fraction=0.05, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=plots.MUTED, labelsize=8, length=0)
    return drawn


def unit_bars(units: Mapping[str, Sequence[Estimate]], quantities: Sequence[str], x_label: str) -> Figure:
    """A column of bars for each quantity; `units` maps a name to one estimate per quantity."""
    drawn = plots.figure(1.6 + 2.8 * len(quantities), 1.1 + 0.36 * len(units))
    columns = drawn.add_gridspec(1, len(quantities))
    end = 1.05 * max(abs(x) for estimates in units.values() for e in estimates for x in (e.low, e.value, e.high)) or 1.0
    for i, quantity in enumerate(quantities):
        ax = plots.axes(drawn, textwrap.fill(quantity, 30), x_label, grid="x", at=columns[i])
        for row, estimates in enumerate(units.values()):
            e = estimates[i]
            ax.barh(row, e.value, height=0.62, color=FOR if e.value > 0 else AGAINST)
            ax.plot([e.low, e.high], [row, row], color=plots.INK, lw=1.2, marker="|", ms=6)
        ax.axvline(0, color=plots.MUTED, lw=0.8)
        ax.set_xlim(-end, end)
        ax.set_yticks(range(len(units)), list(units) if i == 0 else [""] * len(units), color=plots.INK)
        ax.invert_yaxis()
    return drawn


def _legible(explained: Explained) -> torch.Tensor:
    """The map of each example, `(n, h, w)` as the inputs; of very many pixels the sums in cells."""
    heat, drawn = explained.heat(), explained.heat_over_inputs()
    return plots.in_cells(drawn, CELLS) if heat.shape == drawn.shape and max(heat.shape[1:]) > 2 * CELLS else drawn
