"""What can be run on shares is read, and the rest is refused by the name of the layer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep.core.errors import InputError
from modelkeep.encrypt.shares.network import Layer
from modelkeep.encrypt.shares.reading import read_layers


def test_nested_sequences_and_missing_biases() -> None:
    inner = nn.Sequential(nn.Linear(4, 3, bias=False), nn.ReLU())
    layers, values = read_layers(nn.Sequential(nn.Flatten(), inner, nn.Dropout(), nn.Linear(3, 2)))
    assert layers == [Layer(4, 3, "relu"), Layer(3, 2, "none")]
    assert values[0][0].shape == (4, 3)
    assert torch.equal(values[0][1], torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([nn.Linear(2, 2), nn.Sigmoid(), nn.Linear(2, 2)], r"'1' \(Sigmoid\) cannot be run on shares"),
        ([nn.Linear(2, 2), nn.Linear(2, 2)], "'1' follows another linear layer"),
        ([nn.ReLU(), nn.Linear(2, 2)], r"'0' \(ReLU\) is an activation that follows no linear"),
        ([nn.Linear(2, 2), nn.ReLU()], "ends in a linear layer"),
        ([nn.Linear(2, 2), nn.Sequential(nn.Tanh()), nn.Linear(2, 2)], r"'1.0' \(Tanh\)"),
    ],
)
def test_refused(parts: list[nn.Module], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_layers(nn.Sequential(*parts))
    with pytest.raises(InputError, match="Got Linear"):
        read_layers(nn.Linear(2, 2))
