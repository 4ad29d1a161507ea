"""The boundary: a quick way across it, what counts as across, the nearest point that was, and the way back to it."""

from __future__ import annotations

import torch

from modelkeep.attack.case import Case
from modelkeep.core.access import Weights
from modelkeep.core.norms import per_example


class Nearest:
    """The nearest input to each original that was seen to count: `point (n, ...)` at `distance (n,)`, or infinity."""

    def __init__(self, case: Case[Weights]) -> None:
        self.point = case.original.clone()
        self.distance = torch.full((len(case),), torch.inf, dtype=torch.float64, device=case.original.device)

    def see(
        self, case: Case[Weights], x: torch.Tensor, counting: torch.Tensor, index: torch.Tensor | None = None
    ) -> None:
        """Look at `x`, where only those `counting` can win; `case` is the part of the examples at `index`, or all."""
        index = torch.arange(len(x), device=x.device) if index is None else index
        distance = case.ball.distance(x, case.original)
        nearer = counting & (distance < self.distance[index])
        self.point[index[nearer]], self.distance[index[nearer]] = x[nearer], distance[nearer]


def counts(case: Case[Weights], logits: torch.Tensor, confidence: float = 0.0) -> torch.Tensor:
    """Whether the wanted answer is reached, and leads by `confidence` at least."""
    return case.reached(logits) & (case.lead(logits) >= confidence)


def across(
    case: Case[Weights], start: torch.Tensor, *, confidence: float, steps: int = 8
) -> tuple[torch.Tensor, torch.Tensor]:
    """A point a little across the boundary for each example, or as far as it came, and the slope of the lead there.

    From `start`, each step goes where a linear model would be across, and a little more; most need two or three.
    """
    end, slope = case.original.clone(), torch.zeros_like(case.original)
    x, going, active = start, case, torch.arange(len(case), device=end.device)
    for _ in range(steps):
        gradient, logits = going.gradient(x, going.lead)
        end[active], slope[active] = x, torch.nan_to_num(gradient)
        rest = ~counts(going, logits, confidence)
        active, x, logits, going = active[rest], x[rest], logits[rest], going.part(rest)
        if len(active) == 0:
            break
        way = going.ball.unblocked(x, slope[active])
        dual = way.flatten(1).norm(dim=1) if case.ball.norm != "linf" else way.flatten(1).abs().sum(dim=1)
        missing = 1.1 * (confidence - going.lead(logits)).clamp_min(0) + 0.02 * logits.abs().amax(dim=1)
        length = torch.where(dual > 1e-30, missing / dual.clamp_min(1e-30), 0)
        x = going.inside(x + per_example(length, x) * going.ball.steepest(way))
    return end, slope


def back_to_the_boundary(
    case: Case[Weights], found: torch.Tensor, *, confidence: float = 0.0, halvings: int = 8
) -> torch.Tensor:
    """The nearest point to the original, on the line from it to `found`, that still counts, by bisection `(n, ...)`.

    Where `found` itself does not count, it comes back as it is. Costs `halvings` forward passes.
    """
    near, far = found.new_zeros(len(found)), found.new_ones(len(found))
    offset = found - case.original
    with torch.no_grad():
        for _ in range(halvings):
            middle = (near + far) / 2
            holds = counts(case, case.view.forward(case.original + per_example(middle, offset) * offset), confidence)
            near, far = torch.where(holds, near, middle), torch.where(holds, middle, far)
    return torch.where(per_example(far < 1, offset), case.original + per_example(far, offset) * offset, found)
