"""Input-gradient regularisation (Ross2018; Saha2020, section 2.3.1): a loss that is flat around x."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from modelkeep.core.errors import bad_parameter
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.training import Loss, Schedule, Step, at


@declare("hardening", "gradient", paper="Ross2018; Saha2020, section 2.3.1")
class GradientRegularisation:
    """The mean over the batch of CE(f(x), y) + strength · ‖∇ₓ CE(f(x), y)‖₂².

    Differentiates twice, which needs no attack but takes about three times as long as plain training.
    """

    strength: float | Schedule = setting("The weight of the penalty: a number, or a schedule of them.", default=1.0)

    def __post_init__(self) -> None:
        if not callable(self.strength) and not self.strength >= 0:
            raise bad_parameter(
                "GradientRegularisation", "strength", "a number of at least 0 or a schedule", self.strength
            )

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> Loss:
        x = x.detach().requires_grad_()
        total = cross_entropy(model.forward(x), y, reduction="sum")
        # Of the sum, so that each row is the gradient of its own example's loss.
        (gradient,) = torch.autograd.grad(total, x, create_graph=True)
        penalty = gradient.square().sum() / len(x)
        return total / len(x) + at(self.strength, step) * penalty, {"gradient penalty": penalty}
