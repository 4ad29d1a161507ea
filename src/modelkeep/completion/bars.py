"""The bars of Martic2018, figures 2 to 6: hardness per part, coloured by α, a panel per procedure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkeep.core import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from modelkeep.completion.hardness import Cell, Hardness

# α is ordered, and so are these: the higher α, the darker the shade.
_SHADES = ("#D6E6F4", "#B5D4EC", "#8FBFE2", "#5F9FD2", "#2F78B7")
_HATCH = "////"


def draw_bars(hardness: Hardness) -> Figure:
    """A bar per part and α with the standard deviation over the seeds as a whisker; a panel per procedure.

    One part alone has one panel, with the procedures side by side.
    """
    alphas = hardness.alphas
    if len(hardness.parts) > 1:
        titles, names = hardness.procedures, hardness.parts
        groups = [[(cell.part, cell) for cell in hardness.cells if cell.procedure == title] for title in titles]
    else:
        titles, names = hardness.parts, hardness.procedures
        groups = [[(cell.procedure, cell) for cell in hardness.cells]]
    columns = 2 if len(titles) > 1 and len(names) * len(alphas) <= 20 else 1
    rows = -(-len(titles) // columns)
    width = max(6.4, 1.2 + 0.2 * len(names) * len(alphas)) if columns == 1 else 9.6
    turned = max(map(len, names)) * len(names) > 60
    drawn = plots.figure(width, 0.6 + (2.3 + turned * 0.07 * max(map(len, names))) * rows)
    panels = drawn.subplots(rows, columns, squeeze=False, sharey=True).flatten()
    for i, (panel, title, group) in enumerate(zip(panels, titles, groups, strict=False)):
        plots.style(panel, title, y_label="" if i % columns else "MC-hardness")
        _panel(panel, group, names, alphas)
        panel.tick_params(axis="x", labelrotation=90 if turned else 0)
    for panel in panels[len(titles) :]:
        panel.set_axis_off()
    _legend(drawn, hardness)
    return drawn


def _panel(ax: Axes, group: list[tuple[str, Cell]], names: tuple[str, ...], alphas: tuple[float, ...]) -> None:
    """The bars of each name, from low to high α."""
    width = 0.8 / len(alphas)
    for name, cell in group:
        i = alphas.index(cell.alpha)
        x, height = names.index(name) + (i - (len(alphas) - 1) / 2) * width, cell.mean.value
        hatch = _HATCH if cell.censored else None
        ax.bar(x, height, 0.92 * width, color=_shade(i, len(alphas)), hatch=hatch, edgecolor="white", linewidth=0)
        if cell.sd:
            spread = [max(0.0, height - cell.sd), min(1.0, height + cell.sd)]
            ax.plot([x, x], spread, color=plots.INK, lw=1, marker="_", ms=3)
    ax.axhline(1, color=plots.MUTED, lw=0.8, ls="--")  # training from scratch
    ax.set_ylim(0, 1.06)
    ax.set_xlim(-0.6, len(names) - 0.4)
    ax.set_xticks(range(len(names)), list(names), color=plots.INK)


def _legend(drawn: Figure, hardness: Hardness) -> None:
    from matplotlib.patches import Patch

    alphas = hardness.alphas
    keys = [Patch(color=_shade(i, len(alphas)), label=f"α = {alpha:g}") for i, alpha in enumerate(alphas)]
    if any(cell.censored for cell in hardness.cells):
        # Such a bar is not only measured: a run that never reached the loss counts as 1.
        keys.append(
            Patch(facecolor=plots.MUTED, edgecolor="white", hatch=_HATCH, lw=0, label="not reached by all runs")
        )
    look = {"frameon": False, "fontsize": 9, "labelcolor": plots.INK}
    drawn.legend(handles=keys, loc="outside upper right", ncols=len(keys), **look)


def _shade(i: int, count: int) -> str:
    """The i-th of `count` shades, the last of them the darkest."""
    return _SHADES[-1] if count == 1 else _SHADES[round(i * (len(_SHADES) - 1) / (count - 1))]
