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
        _round(predictions.units, predictions.labels, 10**self.decimals, False, answers)
        return answers


@declare("guard", "rounding-each", access="scores", paper="Tang2024, section 4.2", extra="guard", kw_only=False)
class RoundingEach(Defence):
    """Answers with each confidence rounded by itself, divided by their sum, with the top-1 label kept.

    The paper's rounding ([0.12, 0.31, 0.26, 0.31] becomes [0.1, 0.3, 0.3, 0.3]) leaves the simplex, where every answer
    of the gateway must be: the quotients are the nearest that may leave. Where all are rounded to nothing, as of very
    many classes, it is `Rounding`.

    >>> from modelkeep.guard.grid import confidences, snap
    >>> confidences(RoundingEach(1)(snap(np.array([[0.12, 0.31, 0.26, 0.31]])))).round(4)
    array([[0.1, 0.3, 0.3, 0.3]], dtype=float32)
    """

    decimals: int = setting("Decimals of each confidence.", default=1, at_least=1, at_most=6)
    stored_name = "modelkeep.guard.defences.rounding.RoundingEach"

    def __call__(self, predictions: Predictions, state: Any = None, inputs: torch.Tensor | None = None) -> Units:
        answers = np.empty_like(predictions.units)
        _round(predictions.units, predictions.labels, 10**self.decimals, True, answers)
        return answers


@compile_loop
def _round(units: Units, labels: NDArray[np.int64], steps: int, each: bool, answers: Units) -> None:
    classes = units.shape[1]
    scratch = np.empty(classes)
    for row in range(len(units)):
        x = answers[row]
        total = steps
        if each:
            total = 0
            for k in range(classes):
                x[k] = (2 * units[row, k] * steps + ONE) // (2 * ONE)
                total += x[k]
        if not each or total == 0:  # so many classes that all were rounded to nothing
            total = steps
            apportion(units[row].astype(np.float64), ONE, steps, x, scratch)
        if not each:
            make_strict(x, labels[row])
        apportion(x.astype(np.float64), total, ONE, x, scratch)  # a step is not a whole number of units
        if each:  # of equals the label is strictly the largest by one unit, and not by a step
            make_strict(x, labels[row])
