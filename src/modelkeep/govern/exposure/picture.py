"""The picture of an advice: what leaks, what crosses and what it costs, a line per place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelkeep.core import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from modelkeep.core.results import Estimate
    from modelkeep.govern.exposure.advice import Advice


def draw_advice(advice: Advice) -> Figure:
    """Three panels with the same lines, from the input at the top to the output; the recommended one is shaded."""
    cuts = advice.cuts
    picture = plots.figure(10.0, 1.6 + 0.42 * len(cuts))
    grid = picture.add_gridspec(1, 3, width_ratios=[2.2, 1.2, 1.2])
    leaks, crosses, cost = (plots.axes(picture, grid="x", at=grid[0, i]) for i in range(3))
    plots.style(leaks, "What a curious party learns", "share learned: 0 is guessing, 1 is all", grid="x")
    plots.style(crosses, "Bytes per sample", "both ways", grid="x")
    plots.style(cost, "Step over one process", f"limit {advice.most_overhead:g}×", grid="x")
    lines = range(len(cuts))
    inputs, labels = "inputs, from activations", "labels, from gradients"
    _bars(leaks, [line - 0.19 for line in lines], [cut.inputs for cut in cuts], plots.PALETTE[0], inputs)
    _bars(leaks, [line + 0.19 for line in lines], [cut.labels for cut in cuts], plots.PALETTE[1], labels)
    fresh = [(line + 0.19, cut.fresh_labels.value) for line, cut in enumerate(cuts) if cut.fresh_labels is not None]
    if fresh:
        heights, shares = zip(*fresh, strict=True)
        leaks.scatter(shares, heights, color=plots.PALETTE[1], edgecolor="white", marker="D", s=30, zorder=3,
                      label="labels, with new weights")  # fmt: skip
    leaks.set_xlim(0, 1.04)
    picture.legend(*leaks.get_legend_handles_labels(), loc="outside lower left", ncols=3, frameon=False, fontsize=8)
    totals = [cut.costs.bytes_forward + cut.costs.bytes_backward for cut in cuts]
    crosses.barh(lines, totals, height=0.55, color=plots.PALETTE[2], alpha=0.85)
    cost.barh(lines, [cut.overhead for cut in cuts], height=0.55, color=plots.PALETTE[3], alpha=0.85)
    cost.axvline(advice.most_overhead, color=plots.MUTED, lw=1, ls="--", zorder=1)
    for line, (total, cut) in enumerate(zip(totals, cuts, strict=True)):
        _label(crosses, total, line, f"{total:,}")
        _label(cost, cut.overhead, line, f"{cut.overhead:.2f}×")
    names = [f"{cut.place} ◀" if cut.place == advice.recommended else cut.place for cut in cuts]
    for ax in (leaks, crosses, cost):
        ax.set_ylim(len(cuts) - 0.5, -0.5)
        ax.set_yticks(list(lines), names if ax is leaks else [""] * len(cuts), color=plots.INK)
        for line, cut in enumerate(cuts):
            if cut.place == advice.recommended:
                ax.axhspan(line - 0.5, line + 0.5, color=plots.PALETTE[4], alpha=0.18, lw=0, zorder=0)
    for ax in (crosses, cost):
        ax.margins(x=0.35)
    return picture


def _bars(ax: Any, heights: list[float], estimates: list[Estimate], colour: str, label: str) -> None:
    ax.barh(heights, [e.value for e in estimates], height=0.34, color=colour, alpha=0.85, label=label)
    for height, e in zip(heights, estimates, strict=True):
        ax.plot([e.low, e.high], [height, height], color=plots.INK, lw=1.2, marker="|", ms=5, solid_capstyle="butt")


def _label(ax: Any, end: float, line: int, text: str) -> None:
    behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8}
    ax.annotate(
        text, (end, line), (4, 0), textcoords="offset points", va="center", color=plots.INK, fontsize=8, bbox=behind
    )
