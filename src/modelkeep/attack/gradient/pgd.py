"""PGD: projected gradient ascent on the loss inside a ball (Madry2018; Saha2020, eq. 2.15)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from modelkeep.attack.base import BoundedAttack
from modelkeep.attack.case import Case, Search
from modelkeep.attack.gradient.ascent import ascend_until_solved
from modelkeep.attack.schedule import cosine_length
from modelkeep.core.access import Weights
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model


@declare("attack", "pgd", access="weights", paper="Madry2018; Saha2020, eq. 2.15")
class PGD(BoundedAttack):
    """Steps from random starts, projected into the ball.

    An example is dropped as soon as it is solved, so the cost is at most one forward and one backward pass per step.
    Without a size, steps fall from the radius to a hundredth of it along a cosine: most examples that can fall do so
    in the first few and cost nothing from there on, and the last steps are fine.
    """

    cheap: ClassVar[dict[str, Any]] = {"radius": 0.1, "steps": 3, "restarts": 2, "batch_size": 4}

    steps: int = setting("Gradient steps per start.", default=40, at_least=1)
    step_size: float | None = setting(
        "Length of a step; without it, from the radius down to a hundredth of it.", default=None, above=0
    )
    restarts: int = setting("Random starts that are tried on what is not solved yet.", default=1, at_least=1)

    def searches(self, model: Model, data: Data) -> list[Search]:
        """Itself, once per start."""
        return [self] * self.restarts

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """Where the ascent ends for each example, `(n, ...)`."""
        start = case.ball.random_point(case.original, case.generator, case.allowed)
        return ascend_until_solved(case, start, [self._size(step, case.ball.reach) for step in range(self.steps)])

    def _size(self, step: int, radius: float) -> float:
        if self.step_size is not None:
            return self.step_size
        return radius * cosine_length(step, self.steps)
