"""ILCM: towards the class that the model finds least likely, within a radius or on and on (thesis 004, eq. 2.14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from modelkeep.attack.case import LEAST_LIKELY, Case, Target
from modelkeep.attack.frame import carry_out
from modelkeep.attack.gradient.pgd import PGD
from modelkeep.attack.result import Attacked
from modelkeep.core.access import Weights
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball, Norm


def ilcm(
    model: Model,
    data: Data,
    *,
    norm: Norm = "linf",
    radius: float | None = None,
    steps: int = 40,
    step_size: float | None = None,
    target: str | Target = LEAST_LIKELY,
    mask: torch.Tensor | None = None,
    batch_size: int = 256,
    seed: int,
) -> Attacked:
    """Make the model see the class that it finds least likely, or another one (Kurakin et al. 2016).

    Without a `radius` it does not stop at the first success but goes on, and shows what the model thinks the class
    looks like: on a robust network, an image of it (thesis 004, section 4.2).

    Args:
        model: The model; gradients of its weights are not computed, and it is left as it was.
        data: Examples with their true labels.
        norm: "linf", "l2" or "l1": how steps and distances are measured.
        radius: The largest allowed distance, in the owner's units; None for as far as the bounds go.
        steps: Gradient steps.
        step_size: Length of a step. Where it is not given, 2.5 · radius / steps; without a radius, as long as it takes
            to cross the model's bounds once.
        target: The class that the answer should become.
        mask: True where the input may change, such as the background only; it must broadcast to the inputs' shape.
        batch_size: Examples that are run at once.
        seed: For models that are random.
    """
    if radius is None and step_size is None and model.bounds is None:
        raise InputError("Without a radius and without bounds of the model, ilcm needs a step_size.")
    return carry_out(
        model,
        data,
        [ILCM(steps, step_size)],
        attack="ILCM",
        ball=Ball(norm, radius, model.bounds),
        target=target,
        mask=mask,
        batch_size=batch_size,
        seed=seed,
    )


@dataclass(frozen=True)
class ILCM(PGD):
    """The inner loop: PGD from the original; without a radius, on and on."""

    random_start: bool = False
    name: ClassVar[str] = "ILCM"

    def __call__(self, case: Case[Weights]) -> torch.Tensor:
        """Where the ascent ends for each example, `(n, ...)`."""
        if case.ball.radius is not None:
            return super().__call__(case)
        size = self.step_size or _across(case) / self.steps
        x = case.original
        for step in range(self.steps):
            gradient, _ = case.gradient(x, case.gain)
            if step == 0:
                case.health.see_gradient(gradient)
            x = case.ball.step(x, torch.nan_to_num(gradient), size, case.original)
        return x


def _across(case: Case[Weights]) -> float:
    """The distance between two opposite corners of the bounds."""
    assert case.ball.bounds is not None
    low, high = (torch.full_like(case.original[:1], bound) for bound in case.ball.bounds)
    return float(case.ball.distance(high, low))
