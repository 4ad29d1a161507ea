"""Whether a model's answer depends on a concept: directional derivatives, with a test against chance (Kim2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.examples import in_parts
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.explain.influence import Influence
from modelkeep.explain.meaning.concepts import Concept, ridge
from modelkeep.explain.quantities import Quantity
from modelkeep.explain.units import units_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHUNK = 256  # examples whose influences at the slice are in memory at once


@dataclass(frozen=True)
class Sensitivity:
    """How a quantity depends on one concept.

    `score` is the share of the examples whose quantity would rise in the direction of the concept (TCAV), `slope` the
    mean change of the quantity per standard deviation in that direction. `p_value` says how often a classifier
    of shuffled labels has a slope as steep, and `adjusted` is that after Holm's correction for the number of
    concepts.
    """

    name: str
    accuracy: Estimate
    score: Estimate
    slope: Estimate
    p_value: float
    adjusted: float
    level: float

    @property
    def significant(self) -> bool:
        """Whether there is a concept, and more than chance makes the quantity depend on it."""
        return self.accuracy.low > 0.5 and self.adjusted < self.level

    @property
    def verdict(self) -> str:
        """What may be claimed."""
        if self.accuracy.low <= 0.5:
            return "not linearly there"
        if self.adjusted >= self.level:
            return "not significant"
        return "raises it" if self.score.low > 0.5 else "lowers it" if self.score.high < 0.5 else "matters both ways"


@dataclass(frozen=True, kw_only=True, eq=False)
class ConceptSensitivity(Result, kind="concept-sensitivity"):
    """How a quantity depends on each of some concepts, tested together."""

    quantity: str
    permutations: int
    concepts: tuple[Sensitivity, ...]

    def rows(self) -> list[tuple[str, str]]:
        rows = [("explains", self.quantity)]
        for c in self.concepts:
            rows.append((c.name, f"{c.verdict} (score {c.score}, p = {c.adjusted:.3f} adjusted)"))
        return rows

    def draw(self) -> Figure:
        """A bar per concept from one half to its score; those that may be chance are grey."""
        from modelkeep.core import plots

        drawn = plots.figure(height=1.2 + 0.38 * len(self.concepts))
        title = f"Concepts that raise {self.quantity}"
        ax = plots.axes(drawn, title, "share of the data for which it rises with the concept", grid="x")
        for row, c in enumerate(self.concepts):
            colour = plots.PALETTE[0] if c.significant else plots.FAINT
            ax.barh(row, c.score.value - 0.5, left=0.5, height=0.62, color=colour)
            ax.plot([c.score.low, c.score.high], [row, row], color=plots.INK, lw=1.4, marker="|", ms=7)
            note = f"{c.verdict}, p = {c.adjusted:.3f}"
            ax.annotate(note, (1.03, row), va="center", color=plots.INK if c.significant else plots.MUTED, fontsize=9)
        ax.axvline(0.5, color=plots.MUTED, lw=1)
        ax.set_yticks(range(len(self.concepts)), [c.name for c in self.concepts], color=plots.INK)
        ax.set_ylim(len(self.concepts) - 0.4, -0.6)
        ax.set_xlim(0, 1.6)
        ax.set_xticks([0, 0.25, 0.5, 0.75, 1])
        return drawn


@declare("measurement", "tcav", access="weights", paper="Kim2018")
class TCAV:
    """For which share of the data a quantity would rise in the direction of each concept, and whether by chance.

    The test shuffles which examples show the concept: under the hypothesis that the slice knows nothing of it, the
    true labels are one shuffle among the others. The gradients of a network are often much alike, so any direction
    can have a score of 0 or 1; the test therefore compares the mean slope along the classifier's weights, not the
    score.
    """

    concepts: Sequence[Concept] = setting("What `learn_concept` returned; several are corrected for their number.")
    quantity: Quantity = setting("What to explain.")
    permutations: int = setting(
        "Shuffles per concept; the smallest p-value is 1 / (1 + this).", default=999, at_least=19
    )
    level: float = setting("Adjusted p-values below it are significant.", default=0.05, above=0, below=1)
    batch_size: int = setting("Examples that are run at once.", default=64, at_least=1)

    def __call__(self, model: Model, data: Data | torch.Tensor, *, seed: int = 0) -> ConceptSensitivity:
        """Measure on examples whose quantity is explained, such as those of one class."""
        if not self.concepts:
            raise bad_parameter("TCAV", "concepts", "at least one concept", self.concepts)
        fingerprint_of_model = model.fingerprint()
        for c in self.concepts:
            if c.provenance.model != fingerprint_of_model:
                raise InputError(
                    f"The concept '{c.name}' was learned from another model, or from this one before its weights "
                    "changed. Learn it again with learn_concept(...)."
                )
        fingerprint = data.fingerprint() if isinstance(data, Data) else None
        with measured(seed, fingerprint_of_model, fingerprint) as provenance:
            slopes = {
                place: unit_influence(model, data, place[0], place[1], self.quantity, self.batch_size, seed)
                for place in dict.fromkeys((c.slice, c.call) for c in self.concepts)
            }
            found = [_test(c, slopes[c.slice, c.call], self.permutations, seed) for c in self.concepts]
            adjusted = holm([p for _, _, p in found])
            return ConceptSensitivity(
                provenance=provenance(),
                quantity=str(self.quantity),
                permutations=self.permutations,
                concepts=tuple(
                    Sensitivity(c.name, c.accuracy, score, slope, p, q, self.level)
                    for c, (score, slope, p), q in zip(self.concepts, found, adjusted, strict=True)
                ),
            )


def unit_influence(
    model: Model,
    data: Data | torch.Tensor,
    slice: str,
    call: int | None,
    quantity: Quantity,
    batch_size: int,
    seed: int,
) -> torch.Tensor:
    """The influence `(n, units)` of each unit, all positions of a channel together; a chunk of the data at a time."""
    if isinstance(data, Data):
        model.require_fit(data)
    parts = []
    influence = Influence(slice=slice, call=call, quantity=quantity, batch_size=batch_size)
    for x in in_parts(data.x if isinstance(data, Data) else data, CHUNK):
        parts.append(units_of(influence(model, x, seed=seed).influence, slice))
    return torch.cat(parts).double()


def unit_attribution(
    model: Model,
    data: Data | torch.Tensor,
    slice: str,
    call: int | None,
    quantity: Quantity,
    batch_size: int,
    seed: int,
) -> torch.Tensor:
    """The attribution `(n, units)` of each unit: influence times the distance to its mean over the first examples.

    Influence alone would rank the units before a linear head by their weights, whether they are ever active or not.
    """
    parts, usual = [], None
    influence = Influence(slice=slice, call=call, quantity=quantity, batch_size=batch_size)
    for x in in_parts(data.x if isinstance(data, Data) else data, CHUNK):
        found = influence(model, x, seed=seed)
        usual = found.activation.mean(dim=0) if usual is None else usual
        parts.append(units_of(found.influence * (found.activation - usual), slice))
    return torch.cat(parts).double()


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction (Holm1979): the chance of any false claim among all tests stays below the level.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def _test(c: Concept, influences: torch.Tensor, permutations: int, seed: int) -> tuple[Estimate, Estimate, float]:
    """The TCAV score, the mean slope and its two-sided permutation p-value, from `influences: (n, units)`."""
    along = influences @ c.vector
    score = Estimate.rate(int((along > 0).sum()), len(along))
    generator = torch.Generator().manual_seed(seed)
    shuffled = [c.labels[torch.randperm(len(c.labels), generator=generator)] for _ in range(permutations)]
    # Not scaled to one length: how far the classifier gets is a part of what chance must match.
    weights = ridge(c.pool, torch.stack([c.labels, *shuffled], dim=1))
    slopes = ((influences.mean(dim=0) * c.pool.std(dim=0, correction=0)) @ weights).abs()
    as_steep = int((slopes[1:] >= slopes[0] * (1 - 1e-9)).sum())
    return score, Estimate.bootstrap(along.numpy(), seed), (1 + as_steep) / (1 + permutations)
