"""Momentum: ascent that remembers where it was going and looks through changed images, so that what it finds transfers.

MI-FGSM (Dong2018) and DI²-FGSM (Xie2019) in one search; with neither it is BIM without its early stop.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch.nn import functional

from modelkeep.attack.base import BoundedAttack
from modelkeep.attack.case import Case
from modelkeep.core.access import Weights
from modelkeep.core.errors import InputError, Remedy
from modelkeep.core.method import declare, setting
from modelkeep.core.norms import per_example


@declare("attack", "momentum", access="weights", paper="Dong2018; Xie2019")
class Momentum(BoundedAttack):
    """Steps along the remembered gradient, so that what is found transfers to other models.

    The direction is g ← momentum · g + ∇/‖∇‖₁. With the probability `diversity` a step takes its gradient through the
    images made a little smaller and put at a random place on black. Unlike PGD it goes all the way on examples that
    are solved before: far beyond one model's boundary is more often beyond another's.
    """

    cheap: ClassVar[dict[str, Any]] = {"radius": 0.1, "steps": 3}

    steps: int = setting("Gradient steps.", default=20, at_least=1)
    step_size: float | None = setting("Length of a step; without it, 2.5 · radius / steps.", default=None, above=0)
    momentum: float = setting(
        "How much of the last direction each step keeps.", default=1.0, at_least=0, below=math.inf
    )
    diversity: float = setting(
        "How often, from 0 to 1, a step looks through resized images. The paper has 0.5, which helps on MNIST too; on "
        "8×8 digits, where a pixel is a stroke, it hurts.",
        default=0.0,
        at_least=0,
        at_most=1,
    )
    random_start: bool = setting("Whether it starts at a random point of the ball.", default=False)

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """Where the ascent ends for each example, `(n, ...)`."""
        if self.diversity > 0 and case.original.ndim != 4:
            raise InputError(
                f"Input diversity resizes images, but these inputs have shape {tuple(case.original.shape[1:])}.",
                remedy=Remedy("Give diversity=0.", "Give --diversity 0."),
            )
        size = self.step_size or 2.5 * case.ball.reach / self.steps
        x = case.original
        if self.random_start:
            x = case.ball.random_point(x, case.generator, case.allowed)
        remembered = torch.zeros_like(x)
        for step in range(self.steps):
            gradient = self._gradient(case, x)
            if step == 0:
                case.health.see_gradient(gradient)
            gradient = torch.nan_to_num(gradient)
            length = gradient.flatten(1).abs().sum(dim=1).clamp_min(torch.finfo(gradient.dtype).tiny)
            remembered = self.momentum * remembered + gradient / per_example(length, gradient)
            x = case.ball.step(x, remembered, size, case.original)
        return x

    def _gradient(self, case: Case[Weights], x: torch.Tensor) -> torch.Tensor:
        """The gradient of the gain at `x`, now and then through other sizes of the images."""
        shrink = self.diversity > 0 and bool(torch.rand((), generator=case.generator) < self.diversity)
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            seen = _shrink(x, case.generator) if shrink else x
            (gradient,) = torch.autograd.grad(case.gain(case.view.forward(seen)).sum(), x)
        case.health.gradients += len(x)
        return gradient if case.allowed is None else gradient * case.allowed


def _shrink(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Images `x: (n, c, h, w)` shrunk by up to an eighth, at a random place on black."""
    height, width = x.shape[2:]
    share = 1 - float(torch.rand((), generator=generator)) / 8
    small = (max(1, math.floor(share * height)), max(1, math.floor(share * width)))
    top = int(torch.randint(height - small[0] + 1, (), generator=generator))
    left = int(torch.randint(width - small[1] + 1, (), generator=generator))
    resized = functional.interpolate(x, size=small, mode="bilinear", align_corners=False)
    return functional.pad(resized, (left, width - small[1] - left, top, height - small[0] - top))
