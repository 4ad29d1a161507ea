"""Move predictions towards targets as far as a budget allows: how a plain formula keeps the constraints exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkeep.guard.grid import ONE, Predictions, Units, apportion, make_strict
from modelkeep.guard.machine_code import compile_loop


def move_toward(predictions: Predictions, targets: NDArray[Any], epsilon: float) -> Units:
    """The points of the segments from `predictions` to `targets: (n, classes)` that are farthest within the budget.

    Targets are weights ≥ 0, and are normalised; where one has another top-1 label it is first changed so that it keeps
    the label. All points of a segment then keep it, and rounding goes back towards the clean prediction.

    >>> from modelkeep.guard.grid import confidences, snap
    >>> confidences(move_toward(snap(np.array([[0.75, 0.25]])), np.array([[1.0, 0.0]]), epsilon=0.25))
    array([[0.875, 0.125]], dtype=float32)
    """
    answers = np.empty_like(predictions.units)
    weights = np.ascontiguousarray(targets, dtype=np.float64)
    _move_toward(predictions.units, predictions.labels, weights, predictions.allowed(epsilon), answers)
    return answers


@compile_loop
def _move_toward(
    units: Units,
    labels: NDArray[np.int64],
    weights: NDArray[np.float64],
    allowed: NDArray[np.int64],
    answers: Units,
) -> None:
    classes = units.shape[1]
    scratch = np.empty(classes)
    for row in range(len(units)):
        y, x, top = units[row], answers[row], labels[row]
        apportion(weights[row], weights[row].sum(), ONE, x, scratch)
        make_strict(x, top)
        distance = 0
        for k in range(classes):
            distance += abs(x[k] - y[k])
        if distance <= allowed[row]:
            continue
        surplus = 0
        for k in range(classes):
            step = abs(x[k] - y[k]) * allowed[row] // distance
            x[k] = y[k] + (step if x[k] > y[k] else -step)
            surplus += x[k] - y[k]
        _balance(x, y, top, surplus)
        _keep_top(x, y, top)


@compile_loop
def _balance(x: NDArray[np.int32], y: NDArray[np.int32], top: int, surplus: int) -> None:
    """Take back `surplus` units of what rose (or of what fell, where it is negative), so that x sums to one again."""
    step = 1 if surplus > 0 else -1
    if surplus < 0:  # the top first
        back = min(-surplus, max(y[top] - x[top], 0))
        x[top] += back
        surplus += back
    while surplus != 0:
        for k in range(len(x)):
            if surplus != 0 and (x[k] - y[k]) * step > 0:
                x[k] -= step
                surplus -= step


@compile_loop
def _keep_top(x: NDArray[np.int32], y: NDArray[np.int32], top: int) -> None:
    """Where rounding made another entry reach the top, go back towards y, a unit up and a unit down at a time."""
    for k in range(len(x)):
        while k != top and x[k] >= x[top]:
            # y is strict, so the top fell or k rose (or both); undo that, and with it a move of the other direction.
            if x[top] < y[top]:
                x[top] += 1
                x[k if x[k] > y[k] else _first_moved(x, y, 1)] -= 1
            else:
                x[k] -= 1
                x[_first_moved(x, y, -1)] += 1


@compile_loop
def _first_moved(x: NDArray[np.int32], y: NDArray[np.int32], sign: int) -> int:
    """The first entry that rose (`sign` 1) or fell (-1)."""
    for k in range(len(x)):
        if (x[k] - y[k]) * sign > 0:
            return k
    return -1
