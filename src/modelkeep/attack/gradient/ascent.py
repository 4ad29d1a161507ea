"""Ascent: so many steps uphill inside a ball, and nothing else. What adversarial training runs at every step."""

from __future__ import annotations

from collections.abc import Callable

import torch

from modelkeep.core.norms import Ball


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
