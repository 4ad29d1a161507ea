"""The small networks that attacks learn: members against non-members, with the one loop."""

from __future__ import annotations

import torch
from torch import nn

from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.training.batches import derive_seed

BATCH = 64
RATE = 1e-2
"""The thesis says Adam, and no rate. With 1e-3, nn-wb was as accurate (table 8.6, n = 400, one seed)."""


def train_classifier(module: nn.Module, x: torch.Tensor, inside: torch.Tensor, epochs: int, seed: int) -> Model:
    """Train a network from `x: (n, ...)` to the logits of "out" and "in" with Adam. Its weights are drawn anew."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(seed, "weights"))
        for part in module.modules():
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()
    data = Data(x.float(), inside.long(), ("out", "in"), name="the shadows' answers")
    model = Model(module, input_shape=data.input_shape, classes=data.classes, bounds=None)
    fit(model, data, cross_entropy, Recipe(epochs=epochs, batch_size=BATCH, learning_rate=RATE), seed=seed)
    return model


def member_logit(model: Model, x: torch.Tensor) -> torch.Tensor:
    """The log odds `(n,)` of "in", in float64."""
    with torch.no_grad():
        logits = torch.cat([model.forward(part.float()) for part in torch.split(x, 4096)]).double()
    return logits[:, 1] - logits[:, 0]
