"""Calibration: β that uses the budget and never breaks it, τ that costs no more accuracy than allowed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.errors import InputError
from modelkeep.guard.defences.calibration import calibrate_beta, calibrate_threshold
from modelkeep.guard.defences.misinformation import AdaptiveMisinformation
from modelkeep.guard.defences.reverse_sigmoid import ReverseSigmoid
from modelkeep.guard.grid import ONE, distortion, snap


@given(
    st.integers(2, 12), st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.3, 1.0]), st.sampled_from([0.05, 0.5, 1.0])
)
def test_the_distortion_is_the_budget_or_beta_is_at_its_end(
    classes: int, seed: int, concentration: float, budget: float
) -> None:
    predictions = np.random.default_rng(seed).dirichlet(np.full(classes, concentration), size=30)
    found, clean = calibrate_beta(predictions, budget), snap(predictions)
    # The formula alone, without the promise that the calibrated defence adds.
    answers = ReverseSigmoid(found.beta, found.gamma)(clean)
    np.testing.assert_array_equal(found(clean), answers)
    largest = (distortion(answers, clean.units) + clean.spent).max() / ONE
    assert largest <= budget
    assert found.beta == 1.0 or largest >= 0.99 * budget


def test_two_classes_have_a_closed_form() -> None:
    y = 0.9
    bend = 1 / (1 + np.exp(-0.2 * np.log(y / (1 - y)))) - 0.5
    # Both entries move by β · bend, in opposite directions, so the sum stays one.
    found = calibrate_beta(np.array([[y, 1 - y], [0.6, 0.4]]), budget=0.1)
    assert found.beta == pytest.approx(0.1 / (2 * bend), rel=1e-5)
    assert (found.gamma, found.epsilon) == (0.2, 0.1)


def test_the_threshold_is_the_last_that_the_allowance_lets_pass() -> None:
    # Identity "networks": the target is right and as sure as the data say, the other is always wrong.
    confidence = torch.linspace(0.55, 0.95, 9)
    x = torch.stack([confidence.logit(), torch.zeros(9)], dim=1)
    data = Data(x, torch.zeros(9, dtype=torch.int64), ("right", "wrong"))
    model = Model(nn.Identity(), input_shape=(2,), classes=data.classes, bounds=None)
    head = nn.Linear(2, 2)
    nn.init.zeros_(head.weight)
    with torch.no_grad():
        head.bias.copy_(torch.tensor([-20.0, 20.0]))
    wrong = Model(head, input_shape=(2,), classes=data.classes, bounds=None)
    # Of 9 examples at 0.55, 0.6, … two may be lost. The third is at 0.65: there, half of its answer is wrong.
    assert calibrate_threshold(model, wrong, data, allowance=2.5 / 9) == pytest.approx(0.64)
    assert calibrate_threshold(model, wrong, data, allowance=0.0) == pytest.approx(0.54)
    assert calibrate_threshold(model, wrong, data, allowance=1.0) == 1.0
    # Independently: the accuracy of the answers there, and just above.
    clean = snap(model.probs(x).numpy())
    right = [
        int((AdaptiveMisinformation(tau, wrong)(clean, None, x).argmax(axis=1) == 0).sum()) for tau in (0.64, 0.65)
    ]
    assert right == [7, 6]


def test_what_cannot_be_calibrated_is_refused(small_cnn: Model) -> None:
    with pytest.raises(InputError, match="epsilon"):
        calibrate_beta(np.array([[0.9, 0.1]]), budget=3.0)
    with pytest.raises(InputError, match="at least one prediction"):
        calibrate_beta(np.empty((0, 3)))
    data = Data(torch.zeros(1, 1, 8, 8), torch.zeros(1, dtype=torch.int64), small_cnn.classes)
    with pytest.raises(InputError, match="allowance"):
        calibrate_threshold(small_cnn, small_cnn, data, allowance=-0.1)
