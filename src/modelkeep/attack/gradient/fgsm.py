"""FGSM: one step along the gradient's sign, or in l2 and l1 along the gradient (Saha2020, eq. 2.10–2.12)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from modelkeep.attack.base import BoundedAttack
from modelkeep.attack.case import Case
from modelkeep.core.access import Weights
from modelkeep.core.method import declare
from modelkeep.core.norms import per_example


@declare("attack", "fgsm", access="weights", paper="Goodfellow2015; Saha2020, eq. 2.10-2.12")
class FGSM(BoundedAttack):
    """One step to the edge of the ball.

    In linf it goes along the gradient's sign (eq. 2.10), in l2 and l1 along the gradient over its norm (eq. 2.12). It
    is the cheapest attack, one forward and one backward pass. That a model stands up to it says little.

    >>> from torch import nn
    >>> from modelkeep import Data, Model
    >>> model = Model(nn.Linear(2, 2), input_shape=(2,), classes=2, bounds=None)
    >>> _ = model.module.load_state_dict({"weight": torch.tensor([[1.0, 2.0], [0.0, 0.0]]), "bias": torch.zeros(2)})
    >>> data = Data(torch.tensor([[0.2, 0.2]]), torch.tensor([0]), model.classes)
    >>> FGSM(radius=0.5)(model, data).adversarial
    tensor([[-0.3000, -0.3000]])
    """

    cheap: ClassVar[dict[str, Any]] = {"radius": 0.5}

    def search(self, case: Case[Weights], /) -> torch.Tensor:
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
