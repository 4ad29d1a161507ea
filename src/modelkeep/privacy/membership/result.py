"""Membership: how well an attack tells who was in the training data (Leino2022, definition 8.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from modelkeep.core import plots
from modelkeep.core.errors import InputError
from modelkeep.core.results import Estimate, Provenance, Result, Tensor
from modelkeep.privacy.membership.roc import (
    LEVEL,
    Array,
    OperatingPoint,
    area,
    decide,
    operating_point,
    roc,
    share_level,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RATES = (0.001, 0.01)
"""The false positive rates at which members are counted. An attack that finds a few for certain counts more than one
that is a little better than chance for all (Carlini2022)."""
MEASURES = 3 + len(RATES)
"""What has an interval of its own: the area, the advantage (with the accuracy), the precision, and each rate."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Membership(Result, kind="membership"):
    """What an attack found: a score per record, higher for members, and "member" where it is above 0.

    `members: (m,)` and `non_members: (n,)` are the scores in the order of the data. `auc` is the chance that a member
    scores above a non-member. `points` are the true positive rates at 0.1 % and 1 % false positives. `advantage` is
    2 · (`balanced_accuracy` - 1/2), for the attack's own decisions; `precision` is what share of the accused are
    members, where both kinds are equally likely.
    """

    attack: str
    members: Tensor = field(repr=False)
    non_members: Tensor = field(repr=False)
    auc: Estimate
    points: tuple[OperatingPoint, ...]
    advantage: Estimate
    balanced_accuracy: Estimate
    precision: Estimate

    @classmethod
    def of(
        cls,
        attack: str,
        members: torch.Tensor,
        non_members: torch.Tensor,
        provenance: Provenance,
        level: float = LEVEL,
    ) -> Membership:
        """Compare the scores of members with those of non-members."""
        inside, outside = (_scores(part, name) for part, name in ((members, "members"), (non_members, "non-members")))
        decision = decide(inside, outside, level)
        return cls(
            provenance=provenance,
            attack=attack,
            members=torch.from_numpy(inside),
            non_members=torch.from_numpy(outside),
            auc=area(inside, outside, level),
            points=tuple(operating_point(inside, outside, rate, level) for rate in RATES),
            advantage=decision.advantage,
            balanced_accuracy=decision.balanced_accuracy,
            precision=decision.precision,
        )

    def among(self, attacks: int) -> Membership:
        """The same with wider intervals: those of all measures of that number of attacks hold together at 95 %.

        The strongest of several attacks is chosen by its outcome, and one of many measures exceeds its limit by
        chance more often than one alone.
        """
        level = share_level(MEASURES * attacks)
        return Membership.of(self.attack, self.members, self.non_members, self.provenance, level)

    @property
    def python(self) -> str:
        """The Python line that makes this result again."""
        p = self.provenance
        return f"{p.python}(model, members, non_members, knowledge, seed={p.seed})" if p.method is not None else ""

    @property
    def command(self) -> str:
        """The command that makes this result again."""
        p = self.provenance
        if p.method is None:
            return ""
        verb = f"modelkeep privacy MODEL --members MEMBERS --non-members NON_MEMBERS --method {p.method.split('/')[-1]}"
        return " ".join(filter(None, [verb, p.options, f"--seed {p.seed}"]))

    @property
    def leaks(self) -> bool:
        """Whether members are told from non-members better than by chance, beyond doubt, by any of the measures.

        Any of them counts, so the intervals are widened to hold together, where they do not already.
        """
        found = self.among(1) if self.auc.level < share_level(MEASURES) else self
        return found.auc.low > 0.5 or found.advantage.low > 0 or any(point.claimed for point in found.points)

    def accusations(self, scores: torch.Tensor) -> torch.Tensor:
        """For each score the share of non-members that score as high: how often it is wrong to accuse such a record."""
        ordered = self.non_members.sort().values
        below = torch.searchsorted(ordered, scores.to(ordered))
        return (len(ordered) - below) / len(ordered)

    def most_exposed(self, count: int) -> list[int]:
        """The members with the highest scores, by their places in the data."""
        return self.members.argsort(descending=True, stable=True)[:count].tolist()

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("attack", self.attack),
            ("records", f"{len(self.members)} members, {len(self.non_members)} non-members"),
            ("AUC", str(self.auc)),
            *((f"members found at {_per_cent(p.false_positive_rate)} false positives", tell(p)) for p in self.points),
            ("balanced accuracy", str(self.balanced_accuracy)),
            ("advantage", str(self.advantage)),
            ("precision", str(self.precision)),
        ]

    def draw(self) -> Figure:
        """The ROC on two logarithmic axes, with the two operating points."""
        return draw_roc([self])


def choose_strongest(results: Sequence[Membership]) -> Membership:
    """The attack with the largest area under its curve; one that shows a leak beyond doubt comes first."""
    return max(results, key=lambda found: (found.leaks, found.auc.value))


def draw_roc(results: list[Membership]) -> Figure:
    """The curves of several attacks on the same records, on logarithmic axes."""
    drawn = plots.figure(6.4, 5.2)
    title = "Members found against non-members accused"
    ax = plots.axes(drawn, title, "false positive rate", "true positive rate")
    ax.set(xscale="log", yscale="log")
    smallest = min(_draw_curve(ax, found, plots.PALETTE[i % 6]) for i, found in enumerate(results))
    ax.plot([smallest, 1], [smallest, 1], color=plots.MUTED, lw=1, ls=":", label="chance")
    ax.set(xlim=(smallest, 1), ylim=(smallest, 1.05))
    ax.grid(axis="both", color=plots.FAINT)
    plots.legend(drawn, ax)
    return drawn


def _draw_curve(ax: Axes, found: Membership, colour: str) -> float:
    """Draw one curve, and the intervals of its claims; the smallest rate that it can show."""
    false, true = roc(_scores(found.members, ""), _scores(found.non_members, ""))
    ax.plot(
        false, true, color=colour, lw=1.8, drawstyle="steps-post", label=f"{found.attack}, AUC {found.auc.value:.3f}"
    )
    for point in found.points:
        if point.enough:
            ax.plot([point.false_positive_rate] * 2, [max(point.found.low, 1e-6), point.found.high], color=colour, lw=1)
    return 1 / max(len(found.members), len(found.non_members))


def tell(point: OperatingPoint) -> str:
    """The members found at an operating point, or why nothing is claimed."""
    if point.enough:
        return str(point.found)
    return f"inconclusive: {point.non_members} non-members, and a claim needs {point.needed}"


def _per_cent(rate: float) -> str:
    return f"{100 * rate:g} %"


def _scores(scores: torch.Tensor, name: str) -> Array:
    found = scores.detach().cpu().double().numpy()
    if found.ndim != 1 or len(found) == 0 or not np.isfinite(found).all():
        raise InputError(f"An attack gives one finite score for each of the {name}, at least one. Got {found.shape}.")
    return found
