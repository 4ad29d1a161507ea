"""FGSM: one step along the gradient's sign, or in l2 and l1 along the gradient (thesis 004, eq. 2.10–2.12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from modelkeep.attack.case import Case, Target
from modelkeep.attack.frame import carry_out
from modelkeep.attack.result import Attacked
from modelkeep.core.access import Weights
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball, Norm, per_example


def fgsm(
    model: Model,
    data: Data,
    *,
    norm: Norm = "linf",
    radius: float,
    target: str | Target | None = None,
    mask: torch.Tensor | None = None,
    batch_size: int = 256,
    seed: int,
) -> Attacked:
    """Move each example by `radius` in the direction in which the cross-entropy rises (Goodfellow et al. 2014).

    The cheapest attack there is: one forward and one backward pass. That a model stands up to it says little.

    Args:
        model: The model; gradients of its weights are not computed, and it is left as it was.
        data: Examples with their true labels.
        norm: "linf": along the gradient's sign (2.10); "l2" and "l1": along the gradient over its norm (2.12).
        radius: How far to go, in the owner's units.
        target: The class that the answer should become (2.11); without it, any wrong answer will do.
        mask: True where the input may change, such as the background only; it must broadcast to the inputs' shape.
        batch_size: Examples that are run at once.
        seed: For models that are random.

    >>> from torch import nn
    >>> model = Model(nn.Linear(2, 2), input_shape=(2,), classes=2, bounds=None)
    >>> _ = model.module.load_state_dict({"weight": torch.tensor([[1.0, 2.0], [0.0, 0.0]]), "bias": torch.zeros(2)})
    >>> data = Data(torch.tensor([[0.2, 0.2]]), torch.tensor([0]), model.classes)
    >>> fgsm(model, data, radius=0.5, seed=0).adversarial
    tensor([[-0.3000, -0.3000]])
    """
    return carry_out(
        model,
        data,
        [FGSM()],
        attack="FGSM",
        ball=Ball(norm, radius, model.bounds),
        target=target,
        mask=mask,
        batch_size=batch_size,
        seed=seed,
    )


@dataclass(frozen=True)
class FGSM:
    """The one step, from the original to the edge of the ball."""

    name: ClassVar[str] = "FGSM"
    sees: ClassVar[type[Weights]] = Weights

    def __call__(self, case: Case[Weights]) -> torch.Tensor:
        """Where the step leads, `(n, ...)`."""
        gradient, _ = case.gradient(case.original, case.gain)
        case.health.see_gradient(gradient)
        gradient = torch.nan_to_num(gradient)
        if case.ball.norm == "l1":
            # Not the steepest direction, which is a single value: that one may be at its bound.
            length = gradient.flatten(1).abs().sum(dim=1)
            direction = gradient / per_example(length.clamp_min(torch.finfo(length.dtype).tiny), gradient)
        else:
            direction = case.ball.steepest(gradient)
        return case.ball.project(case.original + case.ball.reach * direction, case.original)
