"""Reverse sigmoid: bend each confidence the wrong way (Lee2019; Tang2024, appendix B.2)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from modelkeep.core.method import declare, setting
from modelkeep.guard.defence import Defence, epsilon_setting
from modelkeep.guard.defences.segment import move_toward
from modelkeep.guard.grid import ONE, Predictions, Units


@declare(
    "guard", "reverse-sigmoid", access="scores", paper="Lee2019; Tang2024, appendix B.2", extra="guard", kw_only=False
)
class ReverseSigmoid(Defence):
    """Bends each confidence the wrong way by a formula.

    ŷ = α [y − β (s(γ s⁻¹(y)) − 1/2)] with the sigmoid s, and α such that it sums to one.

    The formula itself knows no budget and may leave the simplex or change the label. A confidence below zero becomes
    zero, and where the formula goes beyond `epsilon` or the label we go only as far towards it as they allow. `beta` is
    tuned to a distortion (`calibrate_beta`).

    >>> from modelkeep.guard.grid import confidences, snap
    >>> confidences(ReverseSigmoid(beta=0.4)(snap(np.array([[0.9, 0.1]])))).round(3)
    array([[0.857, 0.143]], dtype=float32)
    """

    beta: float = setting("How strongly confidences are bent; `calibrate_beta` finds it.", at_least=0, below=math.inf)
    gamma: float = setting("The slope inside the sigmoid.", default=0.2, at_least=0, below=math.inf)
    epsilon: float = epsilon_setting(2.0)
    stored_name = "modelkeep.guard.defences.reverse_sigmoid.ReverseSigmoid"

    def __call__(self, predictions: Predictions, state: Any = None, inputs: torch.Tensor | None = None) -> Units:
        y = predictions.units / ONE
        # s(γ s⁻¹(y)) = y^γ / (y^γ + (1 − y)^γ), which also holds at 0 and 1.
        kept, lost = y**self.gamma, (1 - y) ** self.gamma
        return move_toward(predictions, np.maximum(y - self.beta * (kept / (kept + lost) - 0.5), 0), self.epsilon)
