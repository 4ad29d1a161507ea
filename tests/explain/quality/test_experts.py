"""Experts: in a network whose units are known to do one class each, keeping a unit keeps that class."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core import plots
from modelkeep.core.errors import InputError, SliceError
from modelkeep.explain import MeasureExperts
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import small_cnn


def specialists() -> tuple[Model, Data]:
    """Unit i of the hidden layer fires for class i alone, and its logit reads that unit alone."""
    first, last = nn.Linear(4, 4), nn.Linear(4, 4)
    with torch.no_grad():
        for layer in (first, last):
            layer.weight.copy_(torch.eye(4))
            layer.bias.zero_()
        last.bias.copy_(torch.tensor([0.1, 0.0, 0.0, 0.0]))  # with nothing left, everything is 'a'
    y = torch.arange(80) % 4
    names = ("a", "b", "c", "d")
    return Model(nn.Sequential(first, nn.ReLU(), last), input_shape=(4,), classes=names), Data(
        nn.functional.one_hot(y).float(), y, names
    )


def test_one_unit_carries_its_class() -> None:
    model, data = specialists()
    found = MeasureExperts(slice="1", name="c", keep=(0, 1, 3, 9))(model, data, seed=0)
    assert int(found.order[0]) == 2
    assert [kept.units for kept in found.kept] == [0, 1, 3]
    nothing, one, _ = found.kept
    assert nothing.recall.value == 0.0
    assert nothing.precision is None
    assert one.recall.value == 1.0
    assert one.precision is not None
    assert one.precision.value == 1.0
    assert one.accuracy.value == 0.5  # 'c' by its unit and 'a' by default
    assert found.whole.accuracy.value == 1.0
    # A unit drawn at random is the right one a quarter of the time, whatever the example.
    assert not found.random[1].recall.excludes(0.25)


def test_the_mean_as_baseline_keeps_what_is_common() -> None:
    """Zero units kept at the mean of the data is the same answer for all: that of the mean activation."""
    model, data = specialists()
    found = MeasureExperts(slice="1", name="a", keep=(0,), baseline="mean")(model, data, seed=0)
    assert found.kept[0].recall.value == 1.0
    assert found.kept[0].accuracy.value == 0.25


def test_a_few_channels_of_a_trained_network_do_better_than_random_ones() -> None:
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    torch.manual_seed(0)
    model = Model(small_cnn((1, 8, 8), 10), input_shape=(1, 8, 8), classes=train.classes)
    fit(model, train, cross_entropy, Recipe(epochs=4, batch_size=64, learning_rate=3e-3), seed=0)
    found = MeasureExperts(slice="linear1_relu", name="6", keep=(4, 16))(model, test, seed=0)
    assert found.kept[1].recall.low > found.random[1].recall.high
    maps = MeasureExperts(slice="conv2_relu", name="6", keep=(8,))(model, test, seed=0)
    assert maps.whole.units == 32
    for result in (found, maps):
        assert "recall with all" in str(result)
        assert plots.png_bytes(result.draw()).startswith(b"\x89PNG")


def test_nonsense_is_refused() -> None:
    model, data = specialists()
    for wrong, message in (
        ({"keep": ()}, "'keep'"),
        ({"keep": (-1,)}, "'keep'"),
        ({"batch_size": 0}, "'batch_size'"),
        ({"baseline": "median"}, "a number or 'mean'"),
        ({"name": "e"}, "no class 'e'"),
    ):
        with pytest.raises(InputError, match=message):
            MeasureExperts(**{"slice": "1", "name": "a", **wrong})(model, data)  # type: ignore[arg-type]
    with pytest.raises(SliceError, match="nowhere"):
        MeasureExperts(slice="nowhere", name="a")(model, data, seed=0)
    with pytest.raises(InputError, match="no example of 'd'"):
        MeasureExperts(slice="1", name="d")(model, data.take([0, 1, 2]), seed=0)
