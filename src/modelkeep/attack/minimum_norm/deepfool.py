"""DeepFool: step by step to the nearest boundary of the linearised model (Moosavi2016)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from modelkeep.attack.base import Attack, norm_setting
from modelkeep.attack.case import Case
from modelkeep.attack.minimum_norm.boundary import back_to_the_boundary
from modelkeep.attack.minimum_norm.jacobian import jacobian
from modelkeep.core.access import Weights
from modelkeep.core.method import declare, setting
from modelkeep.core.norms import AnyNorm, per_example


@declare("attack", "deepfool", access="weights", paper="Moosavi2016")
class DeepFool(Attack):
    """To the nearest linearised boundary, again and again.

    Each step goes to the nearest of the boundaries that the gradients predict; an example is dropped as soon as it is
    across. What is found is then drawn back along the line to its original, as far as the wrong answer holds.
    """

    cheap: ClassVar[dict[str, Any]] = {"steps": 3}

    norm: AnyNorm = norm_setting("l2", "linf")
    steps: int = setting("Linearisations at most.", default=50, at_least=1)
    overshoot: float = setting(
        "How much further than the predicted boundary each step goes, as a share.", default=0.02, above=0
    )
    candidates: int = setting(
        "How many of the likeliest classes are considered; each costs a backward pass per step.",
        default=10,
        at_least=2,
    )

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """The point on the boundary for each example, `(n, ...)`, or where the last step ended."""
        return back_to_the_boundary(case, self.walk(case))

    def walk(self, case: Case[Weights]) -> torch.Tensor:
        """Where the steps end: a little across the boundary `(n, ...)`."""
        end, x, going = case.original.clone(), case.original, case
        active = torch.arange(len(case), device=x.device)
        classes = self._likeliest(case)
        for step in range(self.steps):
            gaps, normals, solved = _boundaries(going, x, classes[active])
            if step == 0:
                case.health.see_gradient(normals[0])
            if solved.any():
                case.health.see_solved(step, int(solved.sum()), self.steps)
                end[active[solved]], rest = x[solved], ~solved
                active, x, going = active[rest], x[rest], going.part(rest)
                gaps, normals = gaps[:, rest], normals[:, rest]
            if len(active) == 0:
                break
            x = going.inside(x + (1 + self.overshoot) * _shortest(going, x, gaps, torch.nan_to_num(normals)))
        end[active] = x
        return end

    def _likeliest(self, case: Case[Weights]) -> torch.Tensor:
        """The label and the likeliest other classes of each original, `(n, k)`."""
        with torch.no_grad():
            others = case.view.forward(case.original).scatter(1, case.goal[:, None], -torch.inf)
        count = min(self.candidates, others.shape[1]) - 1
        return torch.cat([case.goal[:, None], others.topk(count, dim=1).indices], dim=1)


def _boundaries(
    case: Case[Weights], x: torch.Tensor, classes: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """How far each wanted answer is behind `(k, n)`, in logits; the gradients that close these gaps; who is across."""
    if case.targeted:
        gradient, logits = case.gradient(x, case.lead)
        return -case.lead(logits)[None], gradient[None], case.reached(logits)
    gradients, logits = jacobian(case, x, lambda logits: logits.gather(1, classes))
    values = logits.gather(1, classes).T
    return values[0] - values[1:], gradients[1:] - gradients[0], case.reached(logits)


def _shortest(case: Case[Weights], x: torch.Tensor, gaps: torch.Tensor, normals: torch.Tensor) -> torch.Tensor:
    """The shortest step `(n, ...)` that closes one of the gaps, if the model were linear with these normals."""
    normals = case.ball.unblocked(x, normals)
    flat = normals.flatten(2)
    dual = flat.norm(dim=2) if case.ball.norm == "l2" else flat.abs().sum(dim=2)
    # A tie is a gap too: without a step it would stay one.
    distance = gaps.abs().clamp_min(1e-6) / dual.clamp_min(1e-30)
    nearest = distance.argmin(dim=0)
    chosen = torch.arange(len(x), device=x.device)
    # Where nothing has a gradient there is nowhere to go.
    length = torch.where(dual[nearest, chosen] > 1e-30, distance[nearest, chosen], 0)
    return per_example(length, x) * case.ball.steepest(normals[nearest, chosen])
