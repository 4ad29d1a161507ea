"""The network of the digits with a quadratic, 64-32-10, trained once per test process."""

from __future__ import annotations

from functools import cache

import torch
from torch import nn

from digits import training_digits
from modelkeep import Model
from modelkeep.encrypt.polynomial import Polynomial
from modelkeep.training import Recipe, cross_entropy, fit


@cache
def square_digits() -> Model:
    """64-32-10 with a trained quadratic. It is shared: leave it as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), Polynomial(), nn.Linear(32, 10))
    data = training_digits()
    model = Model(module.eval(), input_shape=(1, 8, 8), classes=data.classes, bounds=(0.0, 1.0))
    fit(model, data, cross_entropy, Recipe(epochs=10, learning_rate=1e-2))
    return model
