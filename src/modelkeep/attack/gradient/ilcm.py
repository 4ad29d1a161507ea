"""ILCM: towards the class that the model finds least likely, within a radius or on and on (Saha2020, eq. 2.14)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from modelkeep.attack.base import Attack, norm_setting
from modelkeep.attack.case import LEAST_LIKELY, Case, Search, Target
from modelkeep.attack.gradient.ascent import ascend_until_solved
from modelkeep.core.access import Weights
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.norms import AnyNorm, Ball


@declare("attack", "ilcm", access="weights", paper="Kurakin2016; Saha2020, eq. 2.14")
class ILCM(Attack):
    """Steps towards the least likely class; without a radius, as far as it goes.

    Without a `radius` it does not stop at the first success but goes on, and shows what the model thinks the class
    looks like: on a robust network, an image of it (Saha2020, section 4.2).
    """

    cheap: ClassVar[dict[str, Any]] = {"radius": 0.3, "steps": 3}

    norm: AnyNorm = norm_setting("linf", "l2", "l1")
    target: str | Target | None = setting("The class that the answer should become.", default=LEAST_LIKELY)
    radius: float | None = setting(
        "The largest allowed change, in the units of the data; without it, as far as the bounds go.",
        default=None,
        above=0,
        below=math.inf,
    )
    steps: int = setting("Gradient steps.", default=40, at_least=1)
    step_size: float | None = setting(
        "Length of a step; without it, 2.5 · radius / steps, or without a radius the width of the bounds / steps.",
        default=None,
        above=0,
    )

    def ball(self, model: Model) -> Ball:
        """All inputs within the radius, if there is one, and the model's bounds."""
        return Ball(self.norm, self.radius, model.bounds)

    def searches(self, model: Model, data: Data) -> Sequence[Search]:
        """Itself, where it knows how long a step is."""
        if self.radius is None and self.step_size is None and model.bounds is None:
            raise InputError("Without a radius and without bounds of the model, ILCM needs a step_size.")
        return [self]

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """Where the ascent ends for each example, `(n, ...)`."""
        if case.ball.radius is not None:
            size = 2.5 * case.ball.radius / self.steps if self.step_size is None else self.step_size
            return ascend_until_solved(case, case.original, [size] * self.steps)
        size = self.step_size or _width(case) / self.steps
        x = case.original
        for step in range(self.steps):
            gradient, _ = case.gradient(x, case.gain)
            if step == 0:
                case.health.see_gradient(gradient)
            x = case.ball.step(x, torch.nan_to_num(gradient), size, case.original)
        return x


def _width(case: Case[Weights]) -> float:
    """The distance between two opposite corners of the bounds."""
    assert case.ball.bounds is not None
    low, high = (torch.full_like(case.original[:1], bound) for bound in case.ball.bounds)
    return float(case.ball.distance(high, low))
