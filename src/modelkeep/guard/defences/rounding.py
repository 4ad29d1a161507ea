"""Rounding: answer with few decimals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.errors import bad_parameter
from modelkeep.guard.grid import ONE, Predictions, Units, apportion, make_strict
from modelkeep.guard.machine_code import compiled


@dataclass(frozen=True)
class Rounding:
    """Answer with confidences of `decimals` decimals that still sum to one and keep the top-1 label.

    To round each confidence by itself breaks the simplex (three thirds become 0.9). Instead the 10^decimals steps are
    apportioned: each confidence gets its whole steps, the largest remainders one more, and the top is made strict. That
    moves a prediction of C classes by at most C/2 + 2 steps in ℓ1, and by no more than two.

    >>> from modelkeep.guard.grid import confidences, snap
    >>> confidences(Rounding(1)(snap(np.array([[1 / 3, 1 / 3, 1 / 3]])))).round(4)
    array([[0.4, 0.3, 0.3]], dtype=float32)
    """

    decimals: int = 1
    name = "rounding"
    stored_name = "modelkeep.guard.defences.rounding.Rounding"
    keeps_top = True
    needs_inputs = False
    epsilon = 2.0

    def __post_init__(self) -> None:
        if not 1 <= self.decimals <= 6:  # below, the steps would be no wider than the grid
            raise bad_parameter("Rounding", "decimals", "a whole number from 1 to 6", self.decimals)

    def initial(self, classes: int) -> None:
        """No state."""

    def __call__(self, predictions: Predictions, state: None = None, inputs: torch.Tensor | None = None) -> Units:
        answers = np.empty_like(predictions.units)
        _round(predictions.units, predictions.labels, 10**self.decimals, answers)
        return answers


@compiled
def _round(units: Units, labels: NDArray[np.int64], steps: int, answers: Units) -> None:
    scratch = np.empty(units.shape[1])
    for row in range(len(units)):
        x = answers[row]
        apportion(units[row].astype(np.float64), ONE, steps, x, scratch)
        make_strict(x, labels[row])
        apportion(x.astype(np.float64), steps, ONE, x, scratch)  # a step is no whole number of units
