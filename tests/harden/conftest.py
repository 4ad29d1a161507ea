"""What the tests of hardening share: digits, networks to train on them, and linear models with closed forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from modelkeep import Model
from training.networks import normed_cnn


@pytest.fixture(scope="session")
def trained(trained_cnn: Model) -> Model:
    """A small CNN that knows the digits and falls to every attack. It is shared: leave it as it is."""
    return trained_cnn


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
