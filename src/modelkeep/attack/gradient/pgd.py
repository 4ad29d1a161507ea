"""PGD: projected gradient ascent on the loss inside a ball (Madry et al.; thesis 004, eq. 2.15)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from modelkeep.attack.case import Case, Target
from modelkeep.attack.frame import carry_out
from modelkeep.attack.result import Attacked
from modelkeep.core.access import Weights
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball, Norm


def pgd(
    model: Model,
    data: Data,
    *,
    norm: Norm = "linf",
    radius: float,
    steps: int = 40,
    step_size: float | None = None,
    restarts: int = 1,
    target: str | Target | None = None,
    mask: torch.Tensor | None = None,
    batch_size: int = 256,
    seed: int,
) -> Attacked:
    """Look for inputs within `radius` of each example that the model gets wrong.

    Starts at a random point of the ball and follows the direction of the cross-entropy's gradient. An example is
    dropped as soon as it is solved, so the cost is at most the floor's: one forward and one backward pass per step.

    Args:
        model: The model; gradients of its weights are not computed, and it is left as it was.
        data: Examples with their true labels.
        norm: "linf", "l2" or "l1".
        radius: The largest allowed distance, in the owner's units.
        steps: Gradient steps per start.
        step_size: Length of a step; where it is not given, it falls from the radius to a hundredth of it.
        restarts: How many random starts are tried on what is not solved yet.
        target: The class that the answer should become; without it, any wrong answer will do.
        mask: True where the input may change, such as the background only; it must broadcast to the inputs' shape.
        batch_size: Examples that are run at once.
        seed: For the random starts.
    """
    if restarts < 1:
        raise bad_parameter("pgd", "restarts", "at least 1", restarts)
    search = PGD(steps, step_size)
    ball = Ball(norm, radius, model.bounds)
    return carry_out(
        model,
        data,
        [search] * restarts,
        attack="PGD",
        ball=ball,
        target=target,
        mask=mask,
        batch_size=batch_size,
        seed=seed,
    )


@dataclass(frozen=True)
class PGD:
    """The inner loop: `steps` of `step_size` from a random start, or from the original.

    Without a size, steps from a random start fall from the radius to a hundredth of it along a cosine: what can fall
    falls in the first few, and costs nothing from there on, and the last ones are fine. From the original they are
    2.5 · radius / steps long, as usual for BIM.
    """

    steps: int = 40
    step_size: float | None = None
    random_start: bool = True
    sees: ClassVar[type[Weights]] = Weights

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise bad_parameter("PGD", "steps", "at least 1", self.steps)
        if self.step_size is not None and not self.step_size > 0:
            raise bad_parameter("PGD", "step_size", "a number above 0", self.step_size)

    @property
    def name(self) -> str:
        """As the papers call it."""
        return "PGD" if self.random_start else "BIM"

    def __call__(self, case: Case[Weights]) -> torch.Tensor:
        """Where the ascent ends for each example, `(n, ...)`."""
        start = case.original
        if self.random_start:
            start = case.ball.random_point(start, case.generator, case.allowed)
        end, x, active = start.clone(), start, torch.arange(len(start), device=start.device)
        going, gains = case, start.new_zeros(3, len(start))
        looks = {0: 0, 3 * self.steps // 4: 1, self.steps - 1: 2} if self.steps >= 4 else {}
        for step in range(self.steps):
            gradient, logits = going.gradient(x, going.gain)
            if step == 0:
                case.health.see_gradient(gradient)
            if step in looks:
                gains[looks[step], active] = going.gain(logits)
            solved = going.reached(logits)
            if solved.any():
                # What is solved is kept as it is and costs nothing from here on.
                end[active[solved]] = x[solved]
                case.health.see_solved(step, int(solved.sum()), self.steps)
                rest = ~solved
                active, x, gradient, going = active[rest], x[rest], gradient[rest], going.part(rest)
            if len(active) == 0:
                return end
            x = going.ball.step(x, torch.nan_to_num(gradient), self._size(step, case.ball), going.original)
        end[active] = x
        if looks:
            case.health.see_ascent(*gains[:, active])
        return end

    def _size(self, step: int, ball: Ball) -> float:
        if self.step_size is not None:
            return self.step_size
        if not self.random_start:
            return 2.5 * ball.reach / self.steps
        return ball.reach * (0.01 + 0.99 * (1 + math.cos(math.pi * step / self.steps)) / 2)
