"""Adaptive misinformation: its formula, a model that learnt to be wrong, and whom it lies to."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot

from modelkeep import Data, Model
from modelkeep.core.errors import InputError, ModelError
from modelkeep.guard.defences.misinformation import AdaptiveMisinformation, misinform, reverse_cross_entropy
from modelkeep.guard.grid import ONE, confidences, snap
from modelkeep.training import Recipe, Step
from modelkeep.training.fresh_network import copy_untrained
from modelkeep.zoo.datasets import load


@pytest.fixture(scope="module")
def misled(trained_cnn: Model, digits: tuple[Data, Data]) -> Model:
    return misinform(trained_cnn, digits[0], Recipe(epochs=5, batch_size=64, learning_rate=3e-3), seed=1)


def test_the_objective_is_the_cross_entropy_of_what_is_left() -> None:
    model = Model(nn.Linear(4, 3).double(), input_shape=(4,), classes=3, bounds=None)
    x, y = torch.randn(6, 4, dtype=torch.float64), torch.arange(6) % 3
    found = reverse_cross_entropy(model, x, y, Step(0, 1, 1)).detach()
    torch.testing.assert_close(found, -(one_hot(y, 3) * (1 - model.probs(x)).log()).sum(dim=1).mean())


def test_the_objective_keeps_its_digits_where_the_network_is_sure() -> None:
    x = torch.tensor([[60.0, 0.0, 0.0]])
    model = Model(nn.Identity(), input_shape=(3,), classes=3, bounds=None)
    # 1 − softmax is 0 in float32 here, and −log of it would be infinite.
    found = reverse_cross_entropy(model, x, torch.tensor([0]), Step(0, 1, 1))
    assert float(found) == pytest.approx(60 - np.log(2), rel=1e-6)


def test_the_misinformation_model_learnt_to_be_wrong(
    trained_cnn: Model, misled: Model, digits: tuple[Data, Data]
) -> None:
    held_out = digits[1]
    true = misled.probs(held_out.x)[torch.arange(len(held_out)), held_out.y]
    guess = copy_untrained(trained_cnn, seed=1).probs(held_out.x)[torch.arange(len(held_out)), held_out.y]
    assert float(true.mean()) < 0.01 < 0.05 < float(guess.mean())
    assert float((misled.predict(held_out.x) == held_out.y).float().mean()) < 0.02
    assert float((trained_cnn.predict(held_out.x) == held_out.y).float().mean()) > 0.9


def test_sure_predictions_leave_as_they_are_and_others_are_misinformation(trained_cnn: Model, misled: Model) -> None:
    defence = AdaptiveMisinformation(0.7, misled)
    x = load("digits").first(4).x
    sure, unsure = np.full(10, 0.01), np.full(10, 0.05)
    sure[3], unsure[3] = 0.91, 0.55
    predictions = snap(np.stack([sure, unsure, sure, unsure]))
    answers = defence(predictions, None, x)
    np.testing.assert_array_equal(answers[[0, 2]], predictions.units[[0, 2]])
    expected = misled.probs(x)[[1, 3]].numpy()
    np.testing.assert_allclose(confidences(answers[[1, 3]]), expected, atol=1e-6)
    assert (answers.sum(axis=1) == ONE).all()
    assert (answers >= 0).all()


def test_at_the_threshold_half_of_the_answer_is_misinformation(misled: Model) -> None:
    y = np.full((1, 10), 0.5 / 9)
    y[0, 2] = 0.5
    x = load("digits").first(1).x
    answer = confidences(AdaptiveMisinformation(0.5, misled)(snap(y), None, x))
    np.testing.assert_allclose(answer, 0.5 * y + 0.5 * misled.probs(x).numpy(), atol=1e-4)
    gentle = AdaptiveMisinformation(0.4, misled, nu=5.0)
    share = 1 / (1 + np.exp(5 * 0.1))
    expected = (1 - share) * y + share * misled.probs(x).numpy()
    np.testing.assert_allclose(confidences(gentle(snap(y), None, x)), expected, atol=1e-6)


def test_what_it_cannot_do_is_refused(misled: Model) -> None:
    with pytest.raises(InputError, match="threshold"):
        AdaptiveMisinformation(1.5, misled)
    with pytest.raises(InputError, match="nu"):
        AdaptiveMisinformation(0.5, misled, nu=0.0)
    with pytest.raises(InputError, match="Give inputs"):
        AdaptiveMisinformation(0.5, misled)(snap(np.array([[0.4, 0.6]])))
    with pytest.raises(InputError, match="10 classes for predictions of 2"):
        AdaptiveMisinformation(0.5, misled)(snap(np.array([[0.4, 0.6]])), None, torch.zeros(1, 1, 8, 8))


def test_fresh_weights_need_layers_that_can_draw_them() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.eye(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight

    model = Model(nn.Sequential(Bare()), input_shape=(3,), classes=3)
    with pytest.raises(ModelError, match="'0' \\(Bare\\) has weights but no reset_parameters"):
        copy_untrained(model, seed=0)
