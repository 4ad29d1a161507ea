"""FAB: steps onto the linearised decision boundary, always drawn back to the original (Croce2020)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from modelkeep.attack.base import Attack, norm_setting
from modelkeep.attack.case import Case
from modelkeep.attack.minimum_norm.boundary import Nearest, back_to_the_boundary
from modelkeep.attack.minimum_norm.hyperplane import onto_hyperplane
from modelkeep.core.access import Weights
from modelkeep.core.method import declare, setting
from modelkeep.core.norms import AnyNorm, per_example

# The paper's α_max, η and β: a step goes 1.05 times as far as the linearised boundary and is drawn to the original by
# at most 0.1. From the other side of the true boundary it starts again at 0.9 of the way there.
_BIAS = 0.1
_OVERSHOOT = 1.05
_BACKWARD = 0.9


@declare("attack", "fab", access="weights", paper="Croce2020")
class FAB(Attack):
    """Along the linearised boundary, back towards the original.

    This is FAB-T of the paper, towards one wrong class after the other: a step costs one backward pass however many
    classes there are. In a ball with a radius, an example is dropped as soon as it is solved within it.
    """

    cheap: ClassVar[dict[str, Any]] = {"steps": 3}

    norm: AnyNorm = norm_setting("linf", "l2", "l1")
    steps: int = setting("Steps towards each class.", default=100, at_least=1)
    targets: int = setting(
        "How many of the most likely wrong classes are tried; where there are fewer, all.", default=9, at_least=1
    )

    @property
    def title(self) -> str:
        """As the paper calls it."""
        return "FAB-T"

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """The nearest input found for each example, `(n, ...)`; the original where there is none."""
        with torch.no_grad():
            clean = case.view.forward(case.original)
        # With a goal to get, the boundary is that to the best other class, whichever that is.
        others = clean.scatter(1, case.goal[:, None], -torch.inf).argsort(dim=1, descending=True)
        rivals = [None] if case.targeted else others[:, : min(self.targets, clean.shape[1] - 1)].unbind(dim=1)
        nearest, enough = Nearest(case), case.ball.radius or 0.0
        for rival in rivals:
            open_ = torch.nonzero(nearest.distance > enough).flatten()
            if len(open_) == 0:
                break
            self._approach(case.part(open_), None if rival is None else rival[open_], nearest, open_)
        # The final search of the paper, where nothing but the distance counts.
        return nearest.point if case.ball.radius is not None else back_to_the_boundary(case, nearest.point)

    def _approach(self, case: Case[Weights], rival: torch.Tensor | None, nearest: Nearest, index: torch.Tensor) -> None:
        """Walk along the boundary to one class, and tell `nearest` of all that is found."""

        def ahead(logits: torch.Tensor) -> torch.Tensor:
            if rival is None:
                return case.lead(logits)
            return (logits.gather(1, rival[:, None]) - logits.gather(1, case.goal[:, None]))[:, 0]

        norm, bounds = case.ball.norm, case.ball.bounds
        assert norm != "l0"  # it was refused at once
        x, original = case.original, case.original.flatten(1)
        for step in range(self.steps):
            gradient, logits = case.gradient(x, ahead)
            if step == 0:
                case.health.see_gradient(gradient)
                if not gradient.any():
                    return  # there is no boundary to be seen
            normal, now = torch.nan_to_num(gradient).flatten(1), x.flatten(1)
            missing = -ahead(logits)
            here = onto_hyperplane(now, normal, missing, norm, bounds)
            there = onto_hyperplane(original, normal, missing + (normal * (now - original)).sum(dim=1), norm, bounds)
            near, far = _length(here, norm), _length(there, norm)
            bias = (near / (near + far).clamp_min(1e-12)).clamp_max(_BIAS)[:, None]
            moved = (1 - bias) * (now + _OVERSHOOT * here) + bias * (original + _OVERSHOOT * there)
            x = (moved if bounds is None else moved.clamp(*bounds)).view_as(x)
            with torch.no_grad():
                crossed = case.reached(case.view.forward(x))
            if crossed.any():
                nearest.see(case, x, crossed, index)
                back = case.original + _BACKWARD * (x - case.original)
                x = torch.where(per_example(crossed, x), back, x)
                if case.ball.radius is not None:
                    rest = nearest.distance[index] > case.ball.radius
                    case.health.see_solved(step, int((~rest).sum()), self.steps)
                    index, x, original, case = index[rest], x[rest], original[rest], case.part(rest)
                    rival = None if rival is None else rival[rest]
                    if len(index) == 0:
                        return


def _length(change: torch.Tensor, norm: AnyNorm) -> torch.Tensor:
    size = change.abs()
    if norm == "linf":
        return size.amax(dim=1)
    return size.sum(dim=1) if norm == "l1" else size.square().sum(dim=1).sqrt()
