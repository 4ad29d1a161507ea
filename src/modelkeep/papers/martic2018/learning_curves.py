"""Learning curves: the mean return of agents over their steps, a panel for each game, with chance as the floor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelkeep.papers.table import PaperTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACROSS = 3


@dataclass(frozen=True)
class LearningCurve:
    """The mean return of an agent in a game at each evaluation, and that of chance."""

    agent: str
    game: str
    steps: tuple[int, ...]
    returns: tuple[float, ...]
    chance: float


@dataclass(frozen=True, kw_only=True, eq=False)
class LearningTable(PaperTable, kind="learning-table"):
    """What agents reach, in numbers, and how they come there, as a picture."""

    curves: tuple[LearningCurve, ...]

    def draw(self) -> Figure:
        from modelkeep.core import plots

        agents = list(dict.fromkeys(curve.agent for curve in self.curves))
        games = list(dict.fromkeys(curve.game for curve in self.curves))
        across = min(_ACROSS, max(1, len(games)))
        down = max(1, math.ceil(len(games) / across))
        drawn = plots.figure(1.0 + 2.9 * across, 0.6 + 2.4 * down)
        panels = drawn.subplots(down, across, squeeze=False)
        for ax in panels.flat[len(games) :]:
            ax.set_visible(False)
        for ax, game in zip(panels.flat, games, strict=False):
            _panel(ax, game, [curve for curve in self.curves if curve.game == game], agents)
        named = {line.get_label(): line for ax in panels.flat for line in ax.get_lines()}
        order = [label for label in (*agents, "chance") if label in named]
        lines = [named[label] for label in order]
        drawn.legend(lines, order, loc="outside lower right", ncols=4, frameon=False, fontsize=9)
        return drawn


def _panel(ax: Axes, game: str, curves: list[LearningCurve], agents: list[str]) -> None:
    from modelkeep.core import plots

    plots.style(ax, game, "thousands of steps", "mean return")
    for curve in curves:
        colour = plots.PALETTE[agents.index(curve.agent) % len(plots.PALETTE)]
        ax.plot([step / 1000 for step in curve.steps], curve.returns, color=colour, lw=2, label=curve.agent)
    ax.axhline(curves[0].chance, color=plots.MUTED, lw=1, ls="--", label="chance")
