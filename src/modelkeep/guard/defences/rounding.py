"""Rounding: answer with few decimals."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.method import declare, setting
from modelkeep.guard.defence import Defence
from modelkeep.guard.grid import ONE, Predictions, Units, apportion, make_strict
from modelkeep.guard.machine_code import compile_loop


@declare("guard", "rounding", access="scores", paper="Tang2024, section 4.2", extra="guard", kw_only=False)
class Rounding(Defence):
    """Answers with few decimals that still sum to one and keep the top-1 label.

    Rounding each confidence by itself leaves the simplex (three thirds become 0.9). Instead the 10^decimals steps are
    apportioned: each confidence gets its whole steps, the largest remainders one more, and the top is made strict. That
    moves a prediction of C classes by at most C/2 + 2 steps in ℓ1, and by no more than two.

    >>> from modelkeep.guard.grid import confidences, snap
    >>> confidences(Rounding(1)(snap(np.array([[1 / 3, 1 / 3, 1 / 3]])))).round(4)
    array([[0.4, 0.3, 0.3]], dtype=float32)
    """

    # With more than six decimals the steps would be no wider than the grid.
    decimals: int = setting("Decimals of each confidence.", default=1, at_least=1, at_most=6)
    stored_name = "modelkeep.guard.defences.rounding.Rounding"

    def __call__(self, predictions: Predictions, state: Any = None, inputs: torch.Tensor | None = None) -> Units:
        answers = np.empty_like(predictions.units)
        _round(predictions.units, predictions.labels, 10**self.decimals, answers)
        return answers


@compile_loop
def _round(units: Units, labels: NDArray[np.int64], steps: int, answers: Units) -> None:
    scratch = np.empty(units.shape[1])
    for row in range(len(units)):
        x = answers[row]
        apportion(units[row].astype(np.float64), ONE, steps, x, scratch)
        make_strict(x, labels[row])
        apportion(x.astype(np.float64), steps, ONE, x, scratch)  # a step is not a whole number of units
