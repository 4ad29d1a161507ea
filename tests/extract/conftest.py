"""What the tests of extraction share: a victim that tells digits, and what its thief has."""

from __future__ import annotations

import pytest
import torch

from modelkeep import Data, Model
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import architectures, datasets


@pytest.fixture(scope="session")
def halves() -> tuple[Data, Data]:
    """What the victim is trained on, and the questions of the thief."""
    one, two = datasets.load("digits").split(0.5, 0.5, seed=0)
    return one, two


@pytest.fixture(scope="session")
def test_digits() -> Data:
    return datasets.load("digits", "test").first(200)


@pytest.fixture(scope="session")
def victim(halves: tuple[Data, Data]) -> Model:
    """Trained for a short time, so that its predictions are not all certain."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = architectures.dense((1, 8, 8), 10, hidden=[32])
    model = Model(module, input_shape=(1, 8, 8), classes=halves[0].classes)
    fit(model, halves[0], cross_entropy, Recipe(epochs=10, batch_size=64, learning_rate=2e-3), seed=0)
    return model
