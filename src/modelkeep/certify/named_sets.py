"""Which classes a guarantee names for each image: a grid with names beneath (Leino2022, figures 7.5 to 7.7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from modelkeep.certify.certification import Certified
from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.results import Estimate, Result, Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedSets(Result, kind="named-sets"):
    """The loosest certified set of every input, `sets: (n, m)`, none where it is rejected; `x` are the inputs."""

    guarantee: str
    radius: float
    classes: tuple[str, ...]
    x: Tensor
    labels: Tensor
    sets: Tensor
    bounds: tuple[float, float]
    verified: Estimate

    @classmethod
    def of(cls, certified: Certified, data: Data) -> NamedSets:
        """The sets of what was certified; `data` are the same inputs."""
        return cls(
            guarantee=certified.guarantee,
            radius=certified.radius,
            classes=certified.classes,
            x=data.x,
            labels=data.y,
            sets=certified.sets,
            bounds=data.bounds or (0.0, 1.0),
            verified=certified.verified,
            provenance=certified.provenance,
        )

    def rows(self) -> list[tuple[str, str]]:
        sizes = torch.bincount(self.sets.sum(dim=1)).tolist()
        return [
            ("guarantee", f"{self.guarantee} within {self.radius:g}"),
            ("certified, with its label", str(self.verified)),
            *((f"{size} classes named" if size else "rejected", f"{n} inputs") for size, n in enumerate(sizes) if n),
        ]

    def draw(self) -> Figure:
        columns = min(8, len(self.x))
        rows = -(-len(self.x) // columns)
        named = [[self.classes[i] for i in row.nonzero().flatten()] or ["(rejected)"] for row in self.sets]
        lines = max(map(len, named))
        drawn = plots.figure(1.35 * columns, (1.45 + 0.14 * lines) * rows)
        cells = drawn.subplots(rows, columns, squeeze=False).flat
        for i, ax in enumerate(cells):
            ax.set_axis_off()
            if i < len(self.x):
                plots.paint_image(ax, self.x[i], self.bounds)
                ax.set_title(self.classes[self.labels[i]], color=plots.MUTED, fontsize=8)
                text = "\n".join(named[i])
                ax.text(0.5, -0.04, text, transform=ax.transAxes, ha="center", va="top", color=plots.INK, fontsize=8)
        return drawn
