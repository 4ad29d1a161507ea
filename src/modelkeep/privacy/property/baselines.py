"""Simpler attacks on the same shadows, which a meta-classifier should be held against. The thesis has none."""

from __future__ import annotations

import torch
from torch.nn.functional import one_hot

from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.training import Adam, Recipe, cross_entropy, fit

_RECIPE = Recipe(epochs=200, batch_size=32, learning_rate=1e-2, optimizer=Adam(weight_decay=1e-2))
"""Logistic regression on a few hundred pictures: more epochs change nothing, as the decay holds the weights."""


def claim_linearly(x: torch.Tensor, labels: torch.Tensor, others: torch.Tensor, properties: int) -> torch.Tensor:
    """Logistic regression on one picture per model, `x: (n, ...)`: its claims on those of `others`, `(m, properties)`.

    A model gets one claim, that of the likeliest property. Pixels are standardised by the shadows'.
    """
    spread, mean = torch.std_mean(x, dim=0)
    scaled, asked = ((each - mean) / (spread + 1e-6) for each in (x, others))
    data = Data(scaled, labels, tuple(map(str, range(properties))))
    layer = torch.nn.Linear(data.x[0].numel(), properties)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    model = Model(
        torch.nn.Sequential(torch.nn.Flatten(), layer), input_shape=data.input_shape, classes=data.classes, bounds=None
    )
    fit(model, data, cross_entropy, _RECIPE, seed=0)
    return one_hot(model.predict(asked), properties).bool()
