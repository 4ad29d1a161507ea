"""Ascent: steps uphill inside a ball. The loop of PGD, BIM and ILCM, and the bare one of adversarial training."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from modelkeep.attack.case import Case
from modelkeep.core.access import Weights
from modelkeep.core.norms import Ball, per_example


def ascend(
    value: Callable[[torch.Tensor], torch.Tensor],
    original: torch.Tensor,
    start: torch.Tensor,
    *,
    ball: Ball,
    step_size: float,
    steps: int,
) -> torch.Tensor:
    """Where gradient ascent on `value(x): (n,)` from `start` ends, `(n, ...)`, without checks and without gradients.

    Gradients go to the input only: those of the weights are neither computed nor kept.
    """
    x = start
    for _ in range(steps):
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(value(x).sum(), x)
        x = ball.step(x.detach(), gradient, step_size, original)
    return x.detach()


def ascend_until_solved(case: Case[Weights], start: torch.Tensor, sizes: Sequence[float]) -> torch.Tensor:
    """Where steps of these sizes from `start` end for each example, `(n, ...)`. A solved example goes no further."""
    steps = len(sizes)
    end, x, active = start.clone(), start, torch.arange(len(start), device=start.device)
    going, gains = case, start.new_zeros(3, len(start))
    looks = {0: 0, 3 * steps // 4: 1, steps - 1: 2} if steps >= 4 else {}
    for step, size in enumerate(sizes):
        gradient, logits = going.gradient(x, going.gain)
        if step == 0:
            case.health.see_gradient(gradient)
        if step in looks:
            gains[looks[step], active] = going.gain(logits)
        solved = going.reached(logits)
        if solved.any():
            # What is solved is kept as it is and costs nothing from here on.
            end[active[solved]] = x[solved]
            case.health.see_solved(step, int(solved.sum()), steps)
            rest = ~solved
            active, x, gradient, logits = active[rest], x[rest], gradient[rest], logits[rest]
            going = going.part(rest)
        if len(active) == 0:
            return end
        if going.targeted:  # NaN is not what is wanted, and no gradient leads out of it: half of the way back does
            silent = per_example(~torch.isfinite(logits.amax(dim=1)), x)
            x = torch.where(silent, (x + going.original) / 2, x)
        x = going.ball.step(x, torch.nan_to_num(gradient), size, going.original)
    end[active] = x
    if looks:
        case.health.see_ascent(*gains[:, active])
    return end
