"""Gradients of many logits at one place, with one forward pass; what DeepFool and JSMA are made of."""

from __future__ import annotations

import torch

from modelkeep.access import Weights
from modelkeep.attack.case import Case


def jacobian(case: Case[Weights], x: torch.Tensor, classes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients `(k, n, ...)` at `x` of the logits of `classes: (n, k)`, and all logits `(n, classes)`.

    The gradients are zero where nothing may change.
    """
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        logits = case.view.forward(x)
        wanted = logits.gather(1, classes).sum(dim=0)
        rows = [torch.autograd.grad(value, x, retain_graph=True)[0] for value in wanted]
    case.health.gradients += len(x) * len(rows)
    gradients = torch.stack(rows)
    return (gradients if case.allowed is None else gradients * case.allowed), logits.detach()
