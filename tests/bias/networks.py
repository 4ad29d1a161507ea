"""Little networks and data for the tests of bias amplification."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.zoo.architectures import dense

CLASSES = ("rest", "most")


def drawn_network(seed: int = 0, inputs: int = 6, width: int = 12, outputs: int = 2) -> Model:
    torch.manual_seed(seed)
    return Model(
        dense([inputs], outputs, [width]),
        input_shape=(inputs,),
        classes=CLASSES if outputs == 2 else outputs,
        bounds=None,
        architecture="modelkeep.architectures:dense",
        arguments={"input_shape": [inputs], "classes": outputs, "hidden": [width]},
    )


def gaussian_data(seed: int = 0, n: int = 200, prior: float = 0.6, inputs: int = 6, distance: float = 1.0) -> Data:
    """Equation 9.1: two Gaussian classes at a Mahalanobis distance, the second with the given prior."""
    random = np.random.default_rng(seed)
    y = (np.arange(n) < round(prior * n)).astype(np.int64)
    x = random.normal(size=(n, inputs)) + y[:, None] * distance / inputs**0.5
    return Data(torch.tensor(x, dtype=torch.float32), torch.tensor(y), CLASSES)


def linear(weights: list[float], bias: float = 0.0) -> Model:
    """Predicts class 1 where `x @ weights + bias > 0`."""
    layer = nn.Linear(len(weights), 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[-w / 2 for w in weights], [w / 2 for w in weights]]))
        layer.bias.copy_(torch.tensor([-bias / 2, bias / 2]))
    return Model(layer, input_shape=(len(weights),), classes=CLASSES, bounds=None)


def table(scores: list[float], labels: list[int]) -> Data:
    """One feature per example."""
    return Data(torch.tensor(scores)[:, None], torch.tensor(labels), CLASSES)
