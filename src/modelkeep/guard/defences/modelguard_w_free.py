"""ModelGuard-W without the top-1 constraint: what misleads most within the budget alone (Tang2024, section 3.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.method import declare
from modelkeep.guard.defence import Defence, epsilon_setting
from modelkeep.guard.grid import Predictions, Units, make_strict
from modelkeep.guard.machine_code import compile_loop


@declare("guard", "modelguard-w-free", access="scores", paper="Tang2024, equation 9", extra="guard", kw_only=False)
class ModelGuardWFree(Defence):
    """Answers as misleadingly as the budget allows, and may change the label.

    Minimises Σ ŷ log y subject to the ℓ1 budget and the simplex: half of the budget goes from the largest confidences,
    which are emptied in turn, to the smallest. It shows what the top-1 constraint costs; users get wrong labels.

    >>> from modelkeep.guard.grid import confidences, snap
    >>> confidences(ModelGuardWFree(epsilon=1.0)(snap(np.array([[0.75, 0.125, 0.0625, 0.0625]])))).round(3)
    array([[0.25 , 0.125, 0.562, 0.062]], dtype=float32)
    """

    epsilon: float = epsilon_setting(1.0)
    keeps_top = False
    stored_name = "modelkeep.guard.defences.modelguard_w_free.ModelGuardWFree"

    def __call__(self, predictions: Predictions, state: Any = None, inputs: torch.Tensor | None = None) -> Units:
        answers = predictions.units.copy()
        _empty_the_largest(answers, predictions.allowed(self.epsilon))
        return answers


@compile_loop
def _empty_the_largest(answers: Units, allowed: NDArray[np.int64]) -> None:
    for row in range(len(answers)):
        x = answers[row]
        half = allowed[row] // 2 - 1  # a unit is kept back: a tie may take one, which counts twice
        if half <= 0:
            continue
        least = np.argmin(x)
        while half > 0:
            most = -1
            for k in range(len(x)):
                if k != least and (most < 0 or x[k] > x[most]):
                    most = k
            moved = min(x[most], half)
            if moved == 0:  # everything is there already
                break
            x[most] -= moved
            x[least] += moved
            half -= moved
        make_strict(x, int(np.argmax(x)))
