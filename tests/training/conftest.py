"""What the tests of training share: data that can be learnt, and a network with all that makes resuming hard."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from modelkeep import Data, Model


@pytest.fixture
def shapes() -> Data:
    """90 images of 8×8 in three classes: each class lights up rows of its own, under noise."""
    generator = torch.Generator().manual_seed(1)
    y = torch.arange(90) % 3
    x = torch.rand(90, 1, 8, 8, generator=generator) * 0.5
    for label in range(3):
        x[y == label, :, 2 * label : 2 * label + 2] += 0.4
    return Data(x, y, ("low", "middle", "high"), "shapes", bounds=(0.0, 1.0))


@pytest.fixture
def fresh() -> Callable[[], Model]:
    """Makes the same small CNN with batch norm and dropout each time."""

    def make() -> Model:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = nn.Sequential(
                nn.Conv2d(1, 4, 3, padding=1),
                nn.BatchNorm2d(4),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Dropout(0.3),
                nn.Linear(64, 3),
            )
        return Model(module, input_shape=(1, 8, 8), classes=("low", "middle", "high"))

    return make
