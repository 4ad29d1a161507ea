"""APGD: ascent that finds its own step sizes (Croce2020; for l1, Croce2021). Nothing to tune but the steps."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch

from modelkeep.attack.base import BoundedAttack
from modelkeep.attack.case import Case, Search
from modelkeep.attack.gradient.climb import climb
from modelkeep.attack.gradient.logit_ratio import logit_ratio
from modelkeep.core.access import Weights
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model


@declare("attack", "apgd", access="weights", paper="Croce2020")
class APGD(BoundedAttack):
    """PGD that finds its own step size.

    Starts with steps as long as the ball is wide, halves them where the loss does not rise any more, and goes on from
    the best point so far. An example is dropped as soon as it is solved; each step costs one forward and one backward
    pass. "ce" is the cross-entropy. "dlr" is the difference of logits ratio, which looks only at the best wrong class
    and does not depend on how the model scales its logits.
    """

    cheap: ClassVar[dict[str, Any]] = {"radius": 0.1, "steps": 4, "loss": "dlr", "restarts": 2}

    steps: int = setting("Gradient steps per start.", default=100, at_least=1)
    loss: Literal["ce", "dlr"] = setting(
        "What to climb: the cross-entropy or the difference of logits ratio.", default="ce", choices=("ce", "dlr")
    )
    restarts: int = setting("Random starts that are tried on what is not solved yet.", default=1, at_least=1)

    @property
    def title(self) -> str:
        """APGD-CE or APGD-DLR."""
        return f"APGD-{self.loss.upper()}"

    def searches(self, model: Model, data: Data) -> list[Search]:
        """Itself, once per start."""
        return [self] * self.restarts

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """Where the climb ends for each example, `(n, ...)`."""
        start = case.ball.random_point(case.original, case.generator, case.allowed)
        return climb(case, start, _cross_entropy if self.loss == "ce" else logit_ratio, self.steps)[0]


def _cross_entropy(case: Case[Weights], _: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    return case.gain(logits)
