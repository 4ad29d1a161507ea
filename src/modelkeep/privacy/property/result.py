"""What property inference finds: how well properties can be told, and which one the target has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from modelkeep.core import plots
from modelkeep.core.results import Estimate, Result, Tensor
from modelkeep.privacy.property.score import chance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 8
"""Reconstructions in the picture."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PropertyInferred(Result, kind="property-inferred"):
    """Which property the training data of a model had, by a meta-classifier on reconstructions.

    `f1` is measured on shadows that the meta-classifier did not learn from, `f1_learned` on those that it did;
    `baselines` are simpler attacks on the former, and a control: the same attack after its labels were shuffled.
    `confusion: (k, k)` counts the likeliest property (columns) of the former by the true one (rows).
    `scores: (k,)` is the probability of each property for the target, and `x: (n, *input_shape)` what it saw of it.
    """

    properties: tuple[str, ...]
    shadows: int
    bounds: tuple[float, float]
    f1: Estimate
    f1_learned: Estimate
    baselines: dict[str, Estimate]
    confusion: Tensor = field(repr=False)
    scores: Tensor = field(repr=False)
    x: Tensor = field(repr=False)

    @property
    def likeliest(self) -> str:
        """The property that the target most likely has."""
        return self.properties[int(self.scores.argmax())]

    @property
    def leaks(self) -> bool:
        """Whether properties are told better than by any guess."""
        return self.f1.low > chance(len(self.properties))

    def rows(self) -> list[tuple[str, str]]:
        trust = "properties leak" if self.leaks else "no better than guessing: do not trust the answer"
        return [
            ("likeliest property", f"{self.likeliest}, probability {float(self.scores.max()):.2f}"),
            ("F1 on other shadows", f"{self.f1}: {trust}"),
            ("F1 on the shadows learned from", str(self.f1_learned)),
            *((f"F1 of {name}", str(found)) for name, found in self.baselines.items()),
            ("F1 without a look", f"{chance(len(self.properties)):.3f}"),
            ("shadow models", f"{self.shadows}, {len(self.properties)} properties"),
        ]

    def draw(self) -> Figure:
        """Reconstructions of the target above, the probability of each property and the confusion below."""
        drawn = plots.figure(9.0, 6.4)
        rows = drawn.add_gridspec(2, 1, height_ratios=(1, 2.6))
        shown = min(len(self.x), _SHOWN)
        pictures = rows[0].subgridspec(1, shown)
        for i, place in enumerate(torch.linspace(0, len(self.x) - 1, shown).round().long().tolist()):
            if self.x.ndim == 4 and self.x.shape[1] in (1, 3):
                plots.paint_image(drawn.add_subplot(pictures[i]), self.x[place], self.bounds)
        below = rows[1].subgridspec(1, 2)
        bars = plots.axes(drawn, "The target", "probability", grid="x", at=below[0])
        bars.barh(range(len(self.properties)), self.scores.tolist(), color=plots.PALETTE[0])
        bars.set_yticks(range(len(self.properties)), self.properties)
        bars.invert_yaxis()
        bars.set_xlim(0, 1)
        heat = plots.axes(drawn, "Other shadows: true and likeliest", at=below[1])
        heat.imshow(self.confusion.numpy(), cmap="Blues")
        heat.grid(visible=False)
        heat.set_xticks(range(len(self.properties)), self.properties, rotation=90)
        heat.set_yticks(range(len(self.properties)), self.properties)
        return drawn
