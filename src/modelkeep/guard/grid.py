"""Predictions on a grid: whole units that sum to exactly one, so that no constraint is ever a matter of rounding.

A confidence is a whole number of units of 2⁻²⁴, the finest grid whose points float32 holds exactly. Distances, budgets,
ties and sums are then integers: equal on every machine, in any order of addition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.errors import PredictionError, bad_parameter
from modelkeep.guard.machine_code import compile_loop

BITS = 24
ONE = 1 << BITS  # the units that the confidences of a prediction sum to

Units = NDArray[np.int32]  # (n, classes); every row sums to ONE, and its largest entry stands strictly above the others
OFF = 1e-2  # confidences that sum to one only within this are not a softmax of any float type


@dataclass(frozen=True, eq=False)
class Predictions:
    """Clean predictions on the grid.

    `units: (n, classes)`; `labels: (n,)` the top-1 labels of the predictions as they came (the first of equals);
    `spent: (n,)` what going to the grid itself moved them, in units and rounded up: it is taken off every budget, so
    that a constraint that holds here holds for the predictions as they came.
    """

    units: Units
    labels: NDArray[np.int64]
    spent: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.units)

    def allowed(self, epsilon: float) -> NDArray[np.int64]:
        """What an ℓ1 budget leaves each row, in units. Where it leaves nothing the only answer is the row itself."""
        return np.maximum(budget(epsilon) - self.spent, 0)


def snap(predictions: NDArray[Any]) -> Predictions:
    """The nearest grid points of `predictions: (n, classes)`, with the top-1 labels kept and made strict.

    >>> on_grid = snap(np.array([[0.25, 0.25, 0.5]], dtype=np.float32))
    >>> on_grid.units / ONE, on_grid.labels, on_grid.spent
    (array([[0.25, 0.25, 0.5 ]]), array([2]), array([0]))
    >>> snap(np.array([[0.1, float("nan")]]))
    Traceback (most recent call last):
    modelkeep.core.errors.PredictionError: Prediction 0 of 1 holds NaN or infinity, so it is not an answer.
    """
    given = np.ascontiguousarray(predictions, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] < 2:
        raise PredictionError(
            f"Predictions are a table of (queries, classes) with two classes or more. Got shape {given.shape}."
        )
    if given.shape[1] > ONE // 4:
        raise PredictionError(f"The grid holds at most {ONE // 4} classes. Got {given.shape[1]}.")
    units = np.empty(given.shape, dtype=np.int32)
    labels = np.empty(len(given), dtype=np.int64)
    spent = np.empty(len(given), dtype=np.int64)
    wrong, row = _snap(given, units, labels, spent)
    if wrong:
        reason = (
            "holds NaN or infinity",
            "holds a negative confidence",
            f"sums to {given[row].sum():.6g} and not to 1 (are these logits? declare them as such)",
        )[wrong - 1]
        raise PredictionError(f"Prediction {row} of {len(given)} {reason}, so it is not an answer.")
    return Predictions(units, labels, spent)


def confidences(units: Units) -> NDArray[np.float32]:
    """The grid points as float32, exactly."""
    return units.astype(np.float32) * np.float32(1 / ONE)


def distortion(ours: Units, theirs: Units) -> NDArray[np.int64]:
    """The ℓ1 distance of each pair of rows, in units."""
    apart: NDArray[np.int64] = np.abs(ours.astype(np.int64) - theirs).sum(axis=-1)
    return apart


def budget(epsilon: float) -> int:
    """An ℓ1 budget in whole units, rounded down."""
    if not 0 <= epsilon <= 2:
        raise bad_parameter("budget", "epsilon", "between 0 and 2, the ℓ1 diameter of the simplex", epsilon)
    return math.floor(epsilon * ONE)


@compile_loop
def _snap(
    given: NDArray[np.float64], units: Units, labels: NDArray[np.int64], spent: NDArray[np.int64]
) -> tuple[int, int]:
    """Fill `units`, `labels` and `spent`; (reason, row) of the first prediction that is none, else (0, 0)."""
    count, classes = given.shape
    error = np.empty(classes)
    # The sum of |y − units| errs by at most half an ulp per term and per addition; this much more is never less.
    upwards = 1 + (classes + 2) * 2.0**-52
    for row in range(count):
        y = given[row]
        top = 0
        total = 0.0
        for k in range(classes):
            if not np.isfinite(y[k]):
                return 1, row
            if y[k] < 0:
                return 2, row
            total += y[k]
            if y[k] > y[top]:
                top = k
        if abs(total - 1) > OFF:
            return 3, row
        apportion(y, total, ONE, units[row], error)
        make_strict(units[row], top)
        labels[row] = top
        moved = 0.0
        for k in range(classes):
            moved += abs(y[k] * ONE - units[row, k])
        spent[row] = int(np.ceil(moved * upwards))
    return 0, 0


@compile_loop
def apportion(
    weights: NDArray[np.float64], total: float, whole: int, parts: NDArray[np.int32], error: NDArray[np.float64]
) -> None:
    """Fill `parts` with the nearest whole numbers to whole · weights / total that sum to `whole` (ℓ1 distance).

    Each is rounded; what is then missing to the sum goes to those that were rounded down the most, a surplus comes off
    those that were rounded up the most, and among equals the first. `total` is the sum of `weights: (n,)`, and
    `error: (n,)` is scratch space.
    """
    missing = whole
    for k in range(len(weights)):
        exact = weights[k] / total * whole
        parts[k] = int(exact + 0.5)
        error[k] = exact - parts[k]
        missing -= parts[k]
    if missing == 0:
        return
    # |missing| is the sum of the errors, each at most one half: at least twice as many entries have the right sign.
    step = 1 if missing > 0 else -1
    missing *= step
    low, high = -1.0, 1.0  # more than `missing` errors lie above low, fewer above high
    for _ in range(32):  # errors that differ by less than 2⁻³¹ count as equal
        middle = (low + high) / 2
        above = 0
        for k in range(len(weights)):
            above += error[k] * step > middle
        if above <= missing:
            high = middle
        if above >= missing:
            low = middle
        if above == missing:
            break
    for k in range(len(weights)):
        if error[k] * step > high:
            parts[k] += step
            missing -= 1
    for k in range(len(weights)):
        if missing > 0 and low < error[k] * step <= high:
            parts[k] += step
            missing -= 1


@compile_loop
def make_strict(parts: NDArray[np.int32], top: int) -> None:
    """Raise entry `top` strictly above all others, at their cost: no reader's rule for ties can find another label."""
    for k in range(len(parts)):
        if k != top and parts[k] >= parts[top] and parts[k] > 0:  # an entry of 0 ties only with a top that will rise
            over = (parts[k] - parts[top]) // 2 + 1
            parts[k] -= over
            parts[top] += over
