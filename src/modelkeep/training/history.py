"""History: what a training wrote down at every evaluation, and the result that holds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING

import torch

from modelkeep.core import plots
from modelkeep.core.errors import TrainingError
from modelkeep.core.results import Estimate, Result
from modelkeep.training.recipe import EarlyStop, Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Evaluation:
    """A row of the history. `train_loss` and `metrics` are means over the steps since the row before.

    Two rows are equal whenever they measured the same; `seconds`, since the start of the run, does not count.
    """

    step: int
    epoch: float
    learning_rate: float
    train_loss: float
    loss: Estimate | None
    accuracy: Estimate | None
    metrics: dict[str, float]
    seconds: float = field(compare=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted(Result, kind="fitted"):
    """A finished training. `model` is the fingerprint of the trained weights, those of evaluation `best` of the
    history; the provenance's is that of the weights that the training started from."""

    objective: str
    recipe: Recipe
    history: tuple[Evaluation, ...]
    best: int
    stopped: str
    model: str

    def rows(self) -> list[tuple[str, str]]:
        kept, last = self.history[self.best], self.history[-1]
        rows = [("objective", self.objective), ("steps", f"{last.step} ({last.epoch:.3g} epochs)")]
        rows += [
            ("stopped", self.stopped),
            ("weights of step", str(kept.step)),
            ("train loss", f"{kept.train_loss:.4g}"),
        ]
        rows += [(name, f"{value:.4g}") for name, value in kept.metrics.items()]
        if kept.loss is not None:
            rows += [("held-out loss", str(kept.loss)), ("held-out accuracy", str(kept.accuracy))]
        return rows

    def draw(self) -> Figure:
        """Train and held-out loss, and held-out accuracy, over the steps; a dotted line where the weights are from."""
        held_out = self.history[0].loss is not None
        figure = plots.figure(5.6, 6.4 if held_out else 3.6)
        steps = [row.step for row in self.history]
        for part, name in zip(
            figure.subfigures(2 if held_out else 1, 1, squeeze=False).flat, ("loss", "accuracy"), strict=False
        ):
            axis = plots.axes(part, name.capitalize(), "step", name)
            if name == "loss":
                axis.plot(steps, [row.train_loss for row in self.history], color=plots.MUTED, marker=".", label="train")
            if held_out:
                colour, estimates = plots.PALETTE[0], [getattr(row, name) for row in self.history]
                bounds = [e.low for e in estimates], [e.high for e in estimates]
                axis.fill_between(steps, *bounds, color=colour, alpha=0.18, lw=0)
                axis.plot(steps, [e.value for e in estimates], color=colour, marker="o", ms=4, label="held out")
                axis.axvline(steps[self.best], color=plots.MUTED, linestyle=":", linewidth=1)
            plots.legend(part, axis)
        return figure


def best_of(history: list[Evaluation], stop: EarlyStop | None) -> int:
    """The place of the row whose weights are kept: the best by early stopping's metric, or else the last."""
    if stop is None:
        return len(history) - 1
    sign = -1.0 if stop.metric == "accuracy" else 1.0
    estimates: list[Estimate] = [getattr(row, stop.metric) for row in history]
    return min(range(len(history)), key=lambda i: sign * estimates[i].value)


class Meter:
    """Sums of the loss and of the metrics since the last evaluation, and the alarm when a loss is not finite.

    Reading a value makes the CPU wait for a GPU, so there values are read only every few steps.
    """

    def __init__(self, device: torch.device) -> None:
        self.sums: dict[str, tuple[float, int]] = {}
        self._pending: list[tuple[int, float, dict[str, torch.Tensor]]] = []
        self._every = 1 if device.type == "cpu" else 50

    def add(self, step: int, learning_rate: float, values: dict[str, torch.Tensor]) -> None:
        """Note the values of a step: scalars, the loss among them."""
        self._pending.append((step, learning_rate, values))
        if len(self._pending) >= self._every:
            self.read()

    def read(self) -> None:
        """Bring the sums up to date."""
        for step, learning_rate, values in self._pending:
            for name, value in values.items():
                total, count = self.sums.get(name, (0.0, 0))
                self.sums[name] = (total + value.item(), count + 1)
            if not isfinite(self.sums["loss"][0]):
                raise TrainingError(
                    f"The loss became {values['loss'].item()} at step {step}, at a learning rate of {learning_rate:g}. "
                    "Lower the learning rate or let it rise slowly from 0, and look for a log, a root or a division "
                    "of 0 in the objective. A checkpoint, if there is one, holds the weights from before."
                )
        self._pending.clear()

    def means(self) -> dict[str, float]:
        """The mean of each since the last call."""
        self.read()
        means = {name: total / count for name, (total, count) in self.sums.items()}
        self.sums = {}
        return means
