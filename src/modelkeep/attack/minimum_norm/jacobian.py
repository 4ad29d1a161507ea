"""Gradients of several values at one place, with one forward pass; what DeepFool and JSMA are made of."""

from __future__ import annotations

from collections.abc import Callable

import torch

from modelkeep.attack.case import Case
from modelkeep.core.access import Weights


def jacobian(
    case: Case[Weights], x: torch.Tensor, values: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients `(k, n, ...)` at `x` of `values(logits): (n, k)`, zero where nothing may change, and the logits."""
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        logits = case.view.forward(x)
        sums = values(logits).sum(dim=0)
        gradients = torch.stack([torch.autograd.grad(value, x, retain_graph=True)[0] for value in sums])
    case.health.gradients += len(x) * len(gradients)
    return (gradients if case.allowed is None else gradients * case.allowed), logits.detach()
