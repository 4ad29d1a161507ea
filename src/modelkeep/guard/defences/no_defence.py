"""No defence: the clean predictions, which every comparison needs."""

from __future__ import annotations

from typing import Any

import torch

from modelkeep.core.method import declare
from modelkeep.guard.defence import Defence
from modelkeep.guard.grid import Predictions, Units


@declare("guard", "none", access="scores", extra="guard", kw_only=False)
class NoDefence(Defence):
    """Answers with the clean predictions."""

    epsilon = 0.0
    stored_name = "modelkeep.guard.defences.none.NoDefence"

    def __call__(self, predictions: Predictions, state: Any = None, inputs: torch.Tensor | None = None) -> Units:
        return predictions.units.copy()
