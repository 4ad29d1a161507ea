"""Linear models, for which the nearest adversarial example is known in closed form."""

from __future__ import annotations

import math

import torch
from torch import nn

from modelkeep import Data, Model


def linear_model(shape: tuple[int, ...] = (6,), classes: int = 3, bounds: tuple[float, float] | None = None) -> Model:
    """A dense layer with fixed random weights."""
    layer = nn.Linear(math.prod(shape), classes)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    return Model(nn.Sequential(nn.Flatten(), layer), input_shape=shape, classes=classes, bounds=bounds)


def data_for(model: Model, n: int = 60) -> Data:
    """Inputs in 0..1 with the model's own answers as labels."""
    x = torch.rand(n, *model.input_shape, generator=torch.Generator().manual_seed(1))
    return Data(x, model.predict(x), model.classes)
