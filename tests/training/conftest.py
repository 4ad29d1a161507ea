"""What the tests of training share: data that can be learnt, and a network with all that makes resuming hard."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch

from modelkeep import Data, Model
from training.networks import normed_cnn


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
    return partial(normed_cnn, 3)
