"""What the tests of hardening share: digits, networks to train on them, and linear models with closed forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo.architectures import small_cnn
from modelkeep.zoo.datasets import load
from training.networks import normed_cnn


@pytest.fixture(scope="session")
def digits() -> tuple[Data, Data]:
    """The 8×8 digits, to train on and held out."""
    train, held_out = load("digits").sample(1000, seed=0).split(0.7, 0.3, seed=0)
    return train, held_out


@pytest.fixture(scope="session")
def trained(digits: tuple[Data, Data]) -> Model:
    """A small CNN that knows the digits and falls to every attack. It is shared: leave it as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Model(small_cnn((1, 8, 8), 10), input_shape=(1, 8, 8), classes=10)
    fit(model, digits[0], cross_entropy, Recipe(epochs=15, batch_size=64, learning_rate=3e-3), seed=0)
    return model


@pytest.fixture
def fresh() -> Callable[[], Model]:
    """Makes the same small CNN with batch norm and dropout each time."""
    return partial(normed_cnn, 10)


@pytest.fixture
def linear() -> Model:
    """Two classes, six inputs without bounds, in double precision: logistic regression."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        module = nn.Linear(6, 2).double()
    return Model(module, input_shape=(6,), classes=2, bounds=None)
