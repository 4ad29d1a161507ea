"""The curve of accuracy against radius: how a model goes down as inputs may be moved further."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from modelkeep.attack.base import Attack
from modelkeep.attack.result import Attacked
from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class RobustnessCurve(Result, kind="robustness-curve"):
    """The share of examples that are still answered rightly at each radius, the first of which is 0.

    `fell_at` is the smallest distance at which each example was found wrong: 0 where it was wrong before, infinity
    where no attack succeeded.
    """

    attack: str
    norm: str
    radii: tuple[float, ...]
    accuracy: tuple[Estimate, ...]
    health: tuple[str, ...]
    queries: int
    gradients: int
    fell_at: Tensor = field(repr=False)

    def rows(self) -> list[tuple[str, str]]:
        at = zip(self.radii, self.accuracy, strict=True)
        return [
            ("attack", f"{self.attack} {self.norm}"),
            *((f"accuracy at {radius:.3g}", str(accuracy)) for radius, accuracy in at),
            ("passes", f"{self.queries:,} forward, {self.gradients:,} backward"),
            ("health", "; ".join(self.health) or "nothing suspicious"),
        ]

    def draw(self) -> Figure:
        """Accuracy against radius, in the band of its intervals."""
        from modelkeep.core import plots

        return plots.curve(
            self.radii, {self.attack: self.accuracy}, x_label=f"radius, {self.norm}", y_label="accuracy, attacked"
        )


def robustness_curve(
    model: Model, data: Data, attack: Attack, radii: Sequence[float], *, seed: int = 0
) -> RobustnessCurve:
    """Attack at every radius, and say how many examples are still answered rightly.

    An attack that takes a radius begins with the largest. At a smaller one, only what fell at the larger is attacked
    again: what stands there stands here, so that the curve never rises, and each example costs one failure at most.
    An attack that looks for the smallest change is run once, for all radii. A random model is attacked in full at each
    radius: its accuracies are means over its answers, and `fell_at` goes by the most frequent one.

    Args:
        model: The model; it is left as it was.
        data: Examples with their true labels.
        attack: Any of the attacks; the radii replace a radius of its own.
        radii: The radii, above 0, in any order.
        seed: For the attack.

    >>> from torch import nn
    >>> from modelkeep.attack import PGD
    >>> model = Model(nn.Linear(4, 2), input_shape=(4,), classes=2)
    >>> x = torch.rand(8, 4)
    >>> data = Data(x, model.predict(x), model.classes)
    >>> robustness_curve(model, data, PGD(norm="l2", radius=10.0, steps=10), [0.1, 10.0]).radii
    (0.0, 0.1, 10.0)
    """
    wanted = sorted(set(map(float, radii)))
    if not wanted or not wanted[0] > 0:
        raise bad_parameter("robustness_curve", "radii", "one or more numbers above 0", radii)
    model.require_fit(data)
    with measured(seed, model.fingerprint(), data.fingerprint()) as provenance:
        runs: list[Attacked] = []
        means: dict[float | None, Attacked] = {}
        random = False
        fell_at = torch.full((len(data),), torch.inf, dtype=torch.float64)
        stood = torch.zeros(len(data), dtype=torch.bool)
        in_a_ball = hasattr(attack, "radius")
        with progress.task("accuracy against radius", len(wanted) if in_a_ball else 1) as task:
            for radius in reversed(wanted) if in_a_ball else [None]:
                # What fell within a smaller radius than it had to is known to fall here.
                contested = torch.nonzero(~stood & (fell_at > (radius or 0.0))).flatten()
                if random:
                    contested = torch.arange(len(data))  # each answer is a chance: nothing follows from a larger one
                if len(contested):
                    part = attack.of_part(contested, len(data))
                    at_radius = part if radius is None else replace(part, radius=radius)  # type: ignore[call-arg]
                    found = at_radius(model, data.take(contested), seed=seed)
                    fallen = found.after != found.labels
                    stood[contested[~fallen]] = True
                    fell_at[contested[fallen]] = found.distance[fallen]
                    runs.append(found)
                    means[radius] = found
                    random = found.draws > 1
                task.advance(1)
        accuracy = [Estimate.rate(int((fell_at > radius).sum()), len(data)) for radius in (0.0, *wanted)]
        if random:
            at = [means.get(radius, runs[0]).accuracy_at(radius) for radius in wanted]
            accuracy = [runs[0].clean_accuracy, *at]
        return RobustnessCurve(
            provenance=provenance(),
            attack=runs[0].attack,
            norm=runs[0].norm,
            radii=(0.0, *wanted),
            accuracy=tuple(accuracy),
            health=tuple(dict.fromkeys(note for run in runs for note in run.health)),
            queries=sum(run.queries for run in runs),
            gradients=sum(run.gradients for run in runs),
            fell_at=fell_at,
        )
