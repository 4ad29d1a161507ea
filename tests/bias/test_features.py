"""Orientation and asymmetry of features, on the data and by the model's influence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bias.networks import drawn_network, gaussian_data, linear
from modelkeep import Data, Model, Result
from modelkeep.bias import MeasureAsymmetry
from modelkeep.core.errors import InputError


def test_asymmetry_of_equation_9_11() -> None:
    """One feature towards class 0, the others towards class 1."""
    random = np.random.default_rng(0)
    y = np.arange(2000) % 2
    means = np.array([[0.0, 1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 1.0, 1.0]])
    x = means[y] + random.normal(size=(2000, 5))
    data = Data(torch.tensor(x, dtype=torch.float32), torch.tensor(y), ("rest", "most"))
    found = MeasureAsymmetry()(linear([1.0, -1.0, 0.5, -0.5, 0.0]), data, seed=0)
    assert found.majority == "most"
    assert found.orientation.tolist() == [[-1, 1, -1, -1, -1], [1, -1, 1, 1, 1]]
    assert [e.value for e in found.on_data] == pytest.approx([0.2, 0.8])
    assert (found.on_data[1].low, found.on_data[1].high) == pytest.approx((0.8, 0.8))  # no sign is in doubt
    # By influence two are towards class 1, two towards class 0 and one has none.
    assert [e.value for e in found.by_influence] == [0.5, 0.5]
    torch.testing.assert_close(found.influence[1], torch.tensor([1.0, -1.0, 0.5, -0.5, 0.0], dtype=torch.float64))


def test_the_penultimate_slice_by_weights_equals_that_by_gradients() -> None:
    model, data = drawn_network(), gaussian_data()
    by_weights = MeasureAsymmetry()(model, data, seed=0)
    by_gradients = MeasureAsymmetry(slice="linear1_relu")(model, data, seed=0)
    assert by_weights.slice == "the input of logits"
    torch.testing.assert_close(by_weights.influence, by_gradients.influence)
    assert by_weights.on_data == by_gradients.on_data
    assert by_weights.by_influence == by_gradients.by_influence


def test_uncertain_signs_make_a_wide_interval() -> None:
    random = np.random.default_rng(0)
    x = torch.tensor(random.normal(size=(30, 40)), dtype=torch.float32)  # nothing differs between the classes
    found = MeasureAsymmetry()(linear([1.0] * 40), Data(x, torch.arange(30) % 2, ("rest", "most")), seed=0)
    assert found.on_data[1].high - found.on_data[1].low > 0.1


def test_one_class_against_the_rest() -> None:
    """Each class raises a feature of its own; a fourth feature never varies, at a value whose means are rounded."""
    model = Model(nn.Linear(4, 3), input_shape=(4,), classes=3, bounds=None)
    y = torch.arange(30) % 3
    x = torch.cat([torch.eye(3)[y], torch.full((30, 1), 0.1)], dim=1)
    found = MeasureAsymmetry()(model, Data(x, y, model.classes), seed=0)
    assert found.orientation.tolist() == [[1, -1, -1, 0], [-1, 1, -1, 0], [-1, -1, 1, 0]]
    assert [e.value for e in found.on_data] == pytest.approx([1 / 3] * 3)
    weight = model.module.weight
    assert isinstance(weight, torch.Tensor)
    torch.testing.assert_close(found.influence[0], (weight[0] - weight[1:].mean(dim=0)).double().detach())


def test_features_of_a_convolution_are_its_units(small_cnn: Model) -> None:
    data = Data(
        torch.rand(12, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 4, small_cnn.classes
    )
    assert MeasureAsymmetry(slice="2")(small_cnn, data, seed=0).orientation.shape == (4, 4 * 4 * 4)


def test_without_a_linear_head_the_features_are_the_input() -> None:
    model = Model(nn.Sequential(nn.Linear(6, 2), nn.Tanh()), input_shape=(6,), classes=("rest", "most"), bounds=None)
    assert MeasureAsymmetry()(model, gaussian_data(), seed=0).slice == "input"


def test_prints_draws_and_comes_back_from_json() -> None:
    found = MeasureAsymmetry()(drawn_network(), gaussian_data(), seed=0)
    assert "towards 'most' on the data" in str(found)
    assert len(found.draw().axes[0].patches) == 2
    assert Result.from_json(found.to_json()).to_json() == found.to_json()


def test_refuses_a_single_class() -> None:
    with pytest.raises(InputError, match="two or more classes"):
        MeasureAsymmetry()(drawn_network(), gaussian_data().of_class("most"), seed=0)
