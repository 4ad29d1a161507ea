"""FAB: steps onto the linearised decision boundary, always drawn back to the original (Croce & Hein 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from modelkeep.attack.case import Case, Target
from modelkeep.attack.frame import carry_out
from modelkeep.attack.nearest.boundary import Nearest, back_to_the_boundary
from modelkeep.attack.nearest.hyperplane import onto_hyperplane
from modelkeep.attack.result import Attacked
from modelkeep.core.access import Weights
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball, Norm, per_example


def fab(
    model: Model,
    data: Data,
    *,
    norm: Norm = "linf",
    steps: int = 100,
    targets: int = 9,
    target: str | Target | None = None,
    mask: torch.Tensor | None = None,
    batch_size: int = 256,
    seed: int,
) -> Attacked:
    """Look for the smallest change that makes the model answer wrongly, towards one wrong class after the other.

    This is FAB-T of the paper: a step costs one backward pass however many classes there are.

    Args:
        model: The model; gradients of its weights are not computed, and it is left as it was.
        data: Examples with their true labels.
        norm: "linf", "l2" or "l1".
        steps: Steps towards each class.
        targets: How many of the most likely wrong classes are tried; where there are fewer, all.
        target: The class that the answer should become; without it, any wrong answer will do.
        mask: True where the input may change; it must broadcast to the inputs' shape.
        batch_size: Examples that are run at once.
        seed: For what the model may draw; FAB itself draws nothing.
    """
    return carry_out(
        model,
        data,
        [FAB(steps, targets)],
        attack="FAB-T",
        ball=Ball(norm, None, model.bounds),
        target=target,
        mask=mask,
        batch_size=batch_size,
        seed=seed,
    )


@dataclass(frozen=True)
class FAB:
    """The inner loop: `steps` towards each of the `targets` most likely wrong classes.

    A step goes `overshoot` times as far as the linearised boundary and is drawn to the original by at most `bias`.
    From the other side of the true boundary it starts again at `backward` of the way there. These are α_max, η and β
    of the paper. In a ball with a radius, an example is dropped as soon as it is solved within it.
    """

    steps: int = 100
    targets: int = 9
    bias: float = 0.1
    overshoot: float = 1.05
    backward: float = 0.9
    name: ClassVar[str] = "FAB-T"
    sees: ClassVar[type[Weights]] = Weights

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise bad_parameter("FAB", "steps", "at least 1", self.steps)
        if self.targets < 1:
            raise bad_parameter("FAB", "targets", "at least 1", self.targets)

    def __call__(self, case: Case[Weights]) -> torch.Tensor:
        """The nearest input found for each example, `(n, ...)`; the original where there is none."""
        if case.ball.norm == "l0":
            raise bad_parameter("FAB", "norm", "'linf', 'l2' or 'l1'", case.ball.norm)
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
            normal, now = torch.nan_to_num(gradient).flatten(1), x.flatten(1)
            missing = -ahead(logits)
            here = onto_hyperplane(now, normal, missing, norm, bounds)
            there = onto_hyperplane(original, normal, missing + (normal * (now - original)).sum(dim=1), norm, bounds)
            near, far = _length(here, norm), _length(there, norm)
            bias = (near / (near + far).clamp_min(1e-12)).clamp_max(self.bias)[:, None]
            moved = (1 - bias) * (now + self.overshoot * here) + bias * (original + self.overshoot * there)
            x = (moved if bounds is None else moved.clamp(*bounds)).view_as(x)
            with torch.no_grad():
                crossed = case.reached(case.view.forward(x))
            if crossed.any():
                nearest.see(case, x, crossed, index)
                back = case.original + self.backward * (x - case.original)
                x = torch.where(per_example(crossed, x), back, x)
                if case.ball.radius is not None:
                    rest = nearest.distance[index] > case.ball.radius
                    case.health.see_solved(step, int((~rest).sum()), self.steps)
                    index, x, original, case = index[rest], x[rest], original[rest], case.part(rest)
                    rival = None if rival is None else rival[rest]
                    if len(index) == 0:
                        return


def _length(change: torch.Tensor, norm: Norm) -> torch.Tensor:
    size = change.abs()
    if norm == "linf":
        return size.amax(dim=1)
    return size.sum(dim=1) if norm == "l1" else size.square().sum(dim=1).sqrt()
