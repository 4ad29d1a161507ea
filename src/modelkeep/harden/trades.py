"""TRADES (Zhang2019): accuracy on the examples, and the same answers all around them."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy, kl_div

from modelkeep.attack.gradient.ascent import ascend
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball
from modelkeep.harden.adversarial import Bounded
from modelkeep.training import Loss, Step, at


@declare("hardening", "trades", paper="Zhang2019")
class Trades(Bounded):
    """CE(f(x), y) + β · max KL(f(x) ‖ f(x')) over the x' within the radius of x.

    As in `Adversarial`, the attack meets the network in eval mode.
    """

    beta: float = setting("A larger one trades accuracy for robustness.", default=6.0, at_least=0)
    steps: int = setting("Steps of the attack.", default=10, at_least=1)

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> Loss:
        clean = model.forward(x)
        loss = cross_entropy(clean, y)
        divergence = torch.zeros_like(loss)
        if (radius := at(self.radius, step)) > 0:
            moved = self._attack_batch(model, x, Ball(self.norm, radius, model.bounds), step)
            divergence = _divergence(clean, model.forward(moved)).mean()
        return loss + self.beta * divergence, {"divergence": divergence}

    def _attack_batch(self, model: Model, x: torch.Tensor, ball: Ball, step: Step) -> torch.Tensor:
        """The inputs in the ball whose answers differ most from those on `x`."""
        with model.frozen(step.generator.initial_seed()):
            clean = model.forward(x)
            start = ball.random_point(x, step.generator)  # at x itself the divergence is flat
            return ascend(
                lambda moved: _divergence(clean, model.forward(moved)),
                x,
                start,
                ball=ball,
                step_size=2.5 * ball.reach / self.steps,
                steps=self.steps,
            )


def _divergence(clean: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
    """KL(softmax(clean) ‖ softmax(moved)) of each example, `(n,)`."""
    divergences = kl_div(moved.log_softmax(dim=1), clean.log_softmax(dim=1), reduction="none", log_target=True)
    return divergences.sum(dim=1)
