"""No defence: the clean predictions, which every comparison needs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from modelkeep.guard.grid import Predictions, Units


@dataclass(frozen=True)
class NoDefence:
    """Answer with the clean predictions."""

    name = "none"
    stored_name = "modelkeep.guard.defences.none.NoDefence"
    keeps_top = True
    needs_inputs = False
    epsilon = 0.0

    def initial(self, classes: int) -> None:
        """No state."""

    def __call__(self, predictions: Predictions, state: None = None, inputs: torch.Tensor | None = None) -> Units:
        return predictions.units.copy()
