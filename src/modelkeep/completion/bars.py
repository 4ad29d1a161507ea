"""The bars of figures 2 to 6: hardness per part, coloured by α, a panel per procedure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkeep import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from modelkeep.completion.hardness import Hardness

# α is ordered, and so are these: the more of the original progress is wanted, the darker.
SHADES = ("#C6DBEF", "#8FBFE0", "#4A90C8", "#1F5F9E", "#0A2F5C")


def bars(hardness: Hardness) -> Figure:
    """A bar per part and α with the standard deviation over the seeds as a whisker; a panel per procedure."""
    procedures, parts, alphas = hardness.procedures, hardness.parts, hardness.alphas
    columns = 2 if len(procedures) > 1 and len(parts) * len(alphas) <= 20 else 1
    rows = -(-len(procedures) // columns)
    width = max(6.4, 1.2 + 0.2 * len(parts) * len(alphas)) if columns == 1 else 9.6
    drawn = plots.figure(width, 0.6 + 2.3 * rows)
    panels = drawn.subplots(rows, columns, squeeze=False, sharey=True).flatten()
    for panel, procedure in zip(panels, procedures, strict=False):
        plots.style(panel, procedure, y_label="MC-hardness" if panel in panels[::columns] else "")
        _panel(panel, hardness, procedure)
    for panel in panels[len(procedures) :]:
        panel.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    by_label = dict(zip(labels, handles, strict=True))
    drawn.legend(
        list(by_label.values()),
        list(by_label),
        loc="outside upper right",
        ncols=len(by_label),
        frameon=False,
        fontsize=9,
        labelcolor=plots.INK,
    )
    return drawn


def _panel(ax: Axes, hardness: Hardness, procedure: str) -> None:
    parts, alphas = hardness.parts, hardness.alphas
    width = 0.8 / len(alphas)
    known = {(cell.part, cell.alpha): cell for cell in hardness.cells if cell.procedure == procedure}
    for i, alpha in enumerate(alphas):
        colour = _shade(i, len(alphas))
        # Drawn for all alphas, also where a procedure has no cell, so that the legend is whole.
        ax.bar([], [], color=colour, label=f"α = {alpha:g}")
        for j, part in enumerate(parts):
            if (cell := known.get((part, alpha))) is None:
                continue
            x, height = j + (i - (len(alphas) - 1) / 2) * width, cell.mean.value
            # Hatched where a run never got there and was counted as 1: the bar is not a measurement alone.
            hatch = "////" if cell.censored else None
            ax.bar(x, height, 0.92 * width, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
            if cell.sd:
                low, high = max(0.0, height - cell.sd), min(1.0, height + cell.sd)
                ax.plot([x, x], [low, high], color=plots.INK, lw=1, marker="_", ms=3)
    if any(cell.censored for cell in hardness.cells):
        ax.bar(
            [], [], color=plots.MUTED, hatch="////", edgecolor="white", linewidth=0, label="not reached by every run"
        )
    ax.axhline(1, color=plots.MUTED, lw=0.8, ls="--")  # training from scratch
    ax.set_ylim(0, 1.06)
    ax.set_xlim(-0.6, len(parts) - 0.4)
    crowded = max(map(len, parts)) * len(parts) > 60
    ax.set_xticks(range(len(parts)), list(parts), color=plots.INK, rotation=30 if crowded else 0)
    if crowded:
        for label in ax.get_xticklabels():
            label.set_ha("right")


def _shade(i: int, count: int) -> str:
    """The i-th of `count` shades: from light to the darkest."""
    return SHADES[-1] if count == 1 else SHADES[round(i * (len(SHADES) - 1) / (count - 1))]
