"""A small world with a leak: two noisy Gaussian classes, and a network that learned its few records by heart."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.privacy import Knowledge
from modelkeep.training import SGD, Recipe

FEATURES = 20
RECIPE = Recipe(epochs=60, batch_size=32, optimizer=SGD(momentum=0.9, nesterov=True), learning_rate=0.1)


def gaussian_records(n: int, seed: int) -> Data:
    """Records of two classes that overlap so much that only learning by heart tells them apart."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 2
    x = torch.randn(n, FEATURES, generator=generator) + 0.4 * (2 * y - 1)[:, None] * (torch.arange(FEATURES) < 4)
    return Data(x, y, ("no", "yes"), features=tuple(f"f{i}" for i in range(FEATURES)))


def network(seed: int = 0) -> Model:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Linear(FEATURES, 2 * FEATURES), nn.ReLU(), nn.Linear(2 * FEATURES, 2))
    return Model(module, input_shape=(FEATURES,), classes=("no", "yes"), bounds=None)


@dataclass(frozen=True)
class World:
    """A target, its members, others, and what the attacker knows."""

    model: Model
    members: Data
    non_members: Data
    knowledge: Knowledge
