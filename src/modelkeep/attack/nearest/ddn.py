"""DDN: the direction from the gradient, the length of the change from whether it worked (Rony et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from modelkeep.attack.case import Case, Target
from modelkeep.attack.frame import carry_out
from modelkeep.attack.nearest.boundary import Nearest
from modelkeep.attack.result import Attacked
from modelkeep.core.access import Weights
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball, per_example


def ddn(
    model: Model,
    data: Data,
    *,
    steps: int = 100,
    step_size: float | None = None,
    gamma: float = 0.05,
    target: str | Target | None = None,
    mask: torch.Tensor | None = None,
    batch_size: int = 256,
    seed: int,
) -> Attacked:
    """Look for the smallest change in l2 that makes the model answer wrongly: fast, and close to C&W.

    Args:
        model: The model; gradients of its weights are not computed, and it is left as it was.
        data: Examples with their true labels.
        steps: Gradient steps.
        step_size: The length of the first step, which falls to a hundredth, and of the first change. None is the
            width of the model's bounds, or 1 where it has none.
        gamma: By which share the length of the change shrinks where it worked, and grows where it did not.
        target: The class that the answer should become; without it, any wrong answer will do.
        mask: True where the input may change; it must broadcast to the inputs' shape.
        batch_size: Examples that are run at once.
        seed: For what the model may draw; DDN itself draws nothing.
    """
    return carry_out(
        model,
        data,
        [DDN(steps, step_size, gamma)],
        attack="DDN",
        ball=Ball("l2", None, model.bounds),
        target=target,
        mask=mask,
        batch_size=batch_size,
        seed=seed,
    )


@dataclass(frozen=True)
class DDN:
    """The inner loop: `steps` whose length falls along a cosine, on spheres whose radius changes by `gamma`."""

    steps: int = 100
    step_size: float | None = None
    gamma: float = 0.05
    name: ClassVar[str] = "DDN"
    sees: ClassVar[type[Weights]] = Weights

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise bad_parameter("DDN", "steps", "at least 1", self.steps)
        if self.step_size is not None and not self.step_size > 0:
            raise bad_parameter("DDN", "step_size", "a number above 0", self.step_size)
        if not 0 < self.gamma < 1:
            raise bad_parameter("DDN", "gamma", "between 0 and 1", self.gamma)

    def __call__(self, case: Case[Weights]) -> torch.Tensor:
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
            size = first * (0.01 + 0.99 * (1 + math.cos(math.pi * step / self.steps)) / 2)
            change = x + size * case.ball.steepest(torch.nan_to_num(gradient)) - case.original
            length = change.flatten(1).square().sum(dim=1).sqrt().clamp_min(1e-12)
            x = case.inside(case.original + per_example(radius / length, change) * change)
        return nearest.point
