"""Modes: a network is asked in eval mode, and a method leaves its modes, flags and random state as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from modelkeep.core.errors import ModelError


def require_eval(module: nn.Module) -> None:
    """Refuse train mode, where dropout and batch statistics give other answers each time."""
    training = [name or "(the module)" for name, part in module.named_modules() if part.training]
    if training:
        raise ModelError(
            f"The model is in train mode at {', '.join(training[:3])}{' …' if len(training) > 3 else ''}. "
            "Call model.module.eval() first."
        )


@contextmanager
def frozen(module: nn.Module, device: torch.device, seed: int) -> Iterator[None]:
    """Eval mode, no gradients for the weights and seeded random numbers; then everything as it was before."""
    modes = [(part, part.training) for part in module.modules()]
    wanted = [(p, p.requires_grad) for p in module.parameters()]
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        # Not torch.manual_seed, which would also seed devices that are not restored.
        torch.default_generator.manual_seed(seed)
        if cuda:
            torch.cuda.manual_seed(seed)
        try:
            module.eval()
            for parameter, _ in wanted:
                parameter.requires_grad_(False)
            yield
        finally:
            for part, mode in modes:
                part.training = mode
            for parameter, flag in wanted:
                parameter.requires_grad_(flag)
