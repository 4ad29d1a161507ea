"""Calibrate: the parameters that the paper tunes, β of reverse sigmoid and τ of adaptive misinformation (section 4)."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from modelkeep.core.access import Scores
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.guard.defences.misinformation import AdaptiveMisinformation
from modelkeep.guard.defences.reverse_sigmoid import ReverseSigmoid
from modelkeep.guard.grid import ONE, distortion, snap
from modelkeep.guard.grid import budget as in_units

_HALVINGS = 30
_HUNDREDTHS = 100  # the paper states τ to two digits


def calibrate_beta(predictions: NDArray[Any], budget: float = 1.0, gamma: float = 0.2) -> ReverseSigmoid:
    """Reverse sigmoid with the β in [0, 1] whose largest distortion on `predictions: (n, classes)` just fits `budget`.

    The budget is also what the defence then promises for predictions that were not among them.

    >>> import numpy as np
    >>> predictions = np.array([[0.9, 0.1], [0.6, 0.4]])
    >>> calibrate_beta(predictions, budget=0.05).beta  # ‖ŷ − y‖₁ = 2β (s(0.2 s⁻¹(0.9)) − 1/2) ≤ 0.05
    0.23...
    """
    in_units(budget)
    if len(predictions) == 0:
        raise InputError("Calibration needs at least one prediction. Got none.")
    clean = snap(predictions)

    def largest(beta: float) -> float:
        moved = distortion(ReverseSigmoid(beta, gamma)(clean), clean.units) + clean.spent
        return float(moved.max()) / ONE

    low, high = 0.0, 1.0
    if largest(high) <= budget:
        return ReverseSigmoid(high, gamma, budget)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if largest(middle) <= budget else (low, middle)
    return ReverseSigmoid(low, gamma, budget)


def calibrate_threshold(model: Model, misinformation: Model, data: Data, allowance: float = 0.01) -> float:
    """The largest τ, in hundredths, up to which the protected accuracy on `data` drops by at most `allowance`.

    The protected accuracy is that of the answers that leave: section 4 wants it not to "drop significantly".
    """
    if not 0 <= allowance <= 1:
        raise bad_parameter("calibrate_threshold", "allowance", "between 0 and 1", allowance)
    model.require_fit(data)
    misinformation.require_fit(data)
    clean = snap(Scores(model).probs(data.x).cpu().numpy())
    misled = Scores(misinformation).probs(data.x).double().cpu().numpy()
    labels = data.y.numpy()
    least = (clean.labels == labels).mean() - allowance
    threshold = 0.0
    for hundredths in range(1, _HUNDREDTHS + 1):
        defence = AdaptiveMisinformation(hundredths / _HUNDREDTHS, misinformation)
        answers = defence.mix(clean, misled)
        if (answers.argmax(axis=1) == labels).mean() < least:
            break
        threshold = defence.threshold
    return threshold
