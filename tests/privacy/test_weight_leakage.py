"""Weight leakage: examples that were written into the weights are found, and nothing is where nothing was written."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.errors import InputError, ModelError
from modelkeep.privacy import FindWeightLeak


def pictures(n: int, seed: int) -> Data:
    generator = torch.Generator().manual_seed(seed)
    smooth = nn.functional.interpolate(torch.rand(n, 1, 4, 4, generator=generator), size=(12, 12), mode="bilinear")
    return Data(smooth, torch.arange(n) % 2, ("a", "b"), bounds=(0, 1))


def model_with(weight: torch.Tensor) -> Model:
    layer = nn.Linear(144, len(weight))
    with torch.no_grad():
        layer.weight.copy_(weight)
    return Model(
        nn.Sequential(nn.Flatten(), layer, nn.ReLU(), nn.Linear(len(weight), 2)),
        input_shape=(1, 12, 12),
        classes=("a", "b"),
    )


def test_examples_in_the_weights_are_found_also_with_their_sign_turned() -> None:
    members, others = pictures(40, 0), pictures(40, 1)
    signs = torch.tensor([1.0, -2.0]).repeat(8)[:, None]  # eq. 8.14: a distance has the column -2c
    model = model_with(signs * members.x[:16].flatten(1))
    found = FindWeightLeak()(model, members, held_out=others)
    drawn = members.sample(40, 0).x  # as the method draws them
    for column, index in zip(found.columns, found.index, strict=True):
        example = drawn[index]
        stretched = (example - example.min()) / (example.max() - example.min())
        torch.testing.assert_close(column, stretched, atol=1e-5, rtol=0)
    assert found.nearer.value == 1.0
    assert "more often than chance" in dict(found.rows())["nearer to training than to other examples"]
    assert found.draw() is not None


def test_random_weights_are_no_nearer_to_training_than_to_other_examples() -> None:
    torch.manual_seed(0)
    found = FindWeightLeak()(model_with(torch.randn(60, 144)), pictures(60, 0), held_out=pictures(60, 1))
    assert found.nearer.low <= 0.5 <= found.nearer.high


def test_choosing_the_best_columns_makes_no_leak() -> None:
    torch.manual_seed(0)
    model = model_with(torch.randn(400, 144))
    found = FindWeightLeak(most=40)(model, pictures(30, 0), held_out=pictures(30, 1))
    assert found.nearer.low <= 0.5 <= found.nearer.high
    assert float((found.similarity > found.elsewhere).double().mean()) > 0.75, "those shown were chosen by it"


def test_what_has_no_columns_to_show_is_refused() -> None:
    convolution = Model(
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(200, 2)), input_shape=(1, 12, 12), classes=("a", "b")
    )
    with pytest.raises(ModelError, match="No dense layer"):
        FindWeightLeak()(convolution, pictures(4, 0), held_out=pictures(4, 1))
    with pytest.raises(InputError, match="held_out"):
        FindWeightLeak()(model_with(torch.randn(3, 144)), pictures(4, 0))
