"""Reverse sigmoid: bend each confidence the wrong way (Lee et al. 2019; paper 003, appendix B.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from modelkeep.core.errors import bad_parameter
from modelkeep.guard.defences.segment import toward
from modelkeep.guard.grid import ONE, Predictions, Units, budget


@dataclass(frozen=True)
class ReverseSigmoid:
    """ŷ = α [y − β (s(γ s⁻¹(y)) − 1/2)] with the sigmoid s, and α such that it sums to one.

    The formula itself knows no budget and may leave the simplex or change the label. A confidence below zero becomes
    zero, and where the formula goes beyond `epsilon` or the label we go only as far towards it as they allow. `beta` is
    tuned to a distortion (`calibrate`).

    >>> from modelkeep.guard.grid import confidences, snap
    >>> confidences(ReverseSigmoid(beta=0.4)(snap(np.array([[0.9, 0.1]])))).round(3)
    array([[0.857, 0.143]], dtype=float32)
    """

    beta: float
    gamma: float = 0.2
    epsilon: float = 2.0
    name = "reverse-sigmoid"
    stored_name = "modelkeep.guard.defences.reverse_sigmoid.ReverseSigmoid"
    keeps_top = True
    needs_inputs = False

    def __post_init__(self) -> None:
        budget(self.epsilon)
        for name in ("beta", "gamma"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise bad_parameter("ReverseSigmoid", name, "a finite number of at least 0", getattr(self, name))

    def initial(self, classes: int) -> None:
        """No state."""

    def __call__(self, predictions: Predictions, state: None = None, inputs: torch.Tensor | None = None) -> Units:
        y = predictions.units / ONE
        # s(γ s⁻¹(y)) = y^γ / (y^γ + (1 − y)^γ), which also holds at 0 and 1.
        kept, lost = y**self.gamma, (1 - y) ** self.gamma
        return toward(predictions, np.maximum(y - self.beta * (kept / (kept + lost) - 0.5), 0), self.epsilon)
