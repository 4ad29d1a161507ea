"""`train_on_shares` learns the digits, and puts the weights into the model of their owner."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Model, datasets
from modelkeep.core.errors import InputError
from modelkeep.encrypt.polynomial import Polynomial
from modelkeep.encrypt.shares.training import train_on_shares


def make_model() -> Model:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), Polynomial(), nn.Linear(32, 10))
    return Model(module, input_shape=(1, 8, 8), classes=10)


def test_it_learns() -> None:
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    model = make_model()
    found = train_on_shares(model, train, steps=120, batch_size=32, rate=2.0**-3)
    x, y = next(test.batches(len(test)))
    assert float((model.predict(x) == y).double().mean()) > 0.8
    assert found.rounds == 12 * 120 + 4
    assert "120 of 32 samples" in str(found)


def test_settings_are_checked() -> None:
    data = datasets.load("digits", "test")
    for settings, name in (({"batch_size": 30}, "batch_size"), ({"rate": 0.1}, "rate"), ({"rate": 64.0}, "rate")):
        with pytest.raises(InputError, match=f"'{name}'"):
            train_on_shares(make_model(), data, steps=1, **settings)
    with pytest.raises(InputError, match="'steps'"):
        train_on_shares(make_model(), data, steps=0)
    bent = Model(nn.Sequential(nn.Linear(64, 4), Polynomial(0.5), nn.Linear(4, 10)), input_shape=(64,), classes=10)
    with pytest.raises(InputError, match="'1' is a polynomial other than the square"):
        train_on_shares(bent, data, steps=1)
