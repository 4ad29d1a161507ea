"""DDN: the direction from the gradient, the length of the change from whether it worked (Rony2019)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from modelkeep.attack.base import Attack, norm_setting
from modelkeep.attack.case import Case
from modelkeep.attack.minimum_norm.boundary import Nearest
from modelkeep.attack.schedule import cosine_length
from modelkeep.core.access import Weights
from modelkeep.core.method import declare, setting
from modelkeep.core.norms import AnyNorm, per_example


@declare("attack", "ddn", access="weights", paper="Rony2019")
class DDN(Attack):
    """The smallest l2 change, direction and norm apart: fast, and close to C&W."""

    cheap: ClassVar[dict[str, Any]] = {"steps": 4}

    norm: AnyNorm = norm_setting("l2")
    steps: int = setting("Gradient steps, whose length falls along a cosine.", default=100, at_least=1)
    step_size: float | None = setting(
        "Length of the first step, which falls to a hundredth, and of the first change; "
        "without it, the width of the model's bounds, or 1 where it has none.",
        default=None,
        above=0,
    )
    gamma: float = setting(
        "The share by which the change shrinks where it worked, and grows where it did not.",
        default=0.05,
        above=0,
        below=1,
    )

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """The nearest input found for each example, `(n, ...)`; the original where there is none."""
        x, nearest = case.original, Nearest(case)
        width = 1.0 if case.ball.bounds is None else case.ball.bounds[1] - case.ball.bounds[0]
        first = self.step_size or width
        radius = x.new_full((len(x),), first)
        for step in range(self.steps):
            gradient, logits = case.gradient(x, case.gain)
            if step == 0:
                case.health.see_gradient(gradient)
            worked = case.reached(logits)
            nearest.see(case, x, worked)
            radius = radius * torch.where(worked, 1 - self.gamma, 1 + self.gamma)
            size = first * cosine_length(step, self.steps)
            change = x + size * case.ball.steepest(torch.nan_to_num(gradient)) - case.original
            length = change.flatten(1).square().sum(dim=1).sqrt().clamp_min(1e-12)
            x = case.inside(case.original + per_example(radius / length, change) * change)
        return nearest.point
