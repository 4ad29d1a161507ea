"""Networks and distributions that the tests of explanations share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from modelkeep import Model
from modelkeep.explain.distributions import Space

CLASSES = ("cat", "dog", "eel")


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def seeded(module: nn.Module, seed: int) -> nn.Module:
    """The module with weights that depend on the seed alone."""
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(noise(*parameter.shape, seed=100 * seed + i) / math.sqrt(parameter[0].numel()))
    return module


def tabular(module: nn.Module, inputs: int = 4) -> Model:
    return Model(module, input_shape=(inputs,), classes=CLASSES, bounds=None)


def smooth_network(seed: int, widths: tuple[int, ...] = (5,), inputs: int = 4) -> Model:
    """A dense network with smooth activations, in float64 for finite differences."""
    sizes = (inputs, *widths, len(CLASSES))
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.Tanh()]
    return tabular(seeded(nn.Sequential(*layers[:-1]), seed).double(), inputs)


@dataclass(frozen=True)
class Offsets:
    """Any given list of offsets, to show that a distribution can be added from outside."""

    offsets: tuple[float, ...]
    at: Space = "input"

    @property
    def count(self) -> int:
        return len(self.offsets)

    def samples(self, centre: torch.Tensor, seed: int) -> Iterator[torch.Tensor]:
        yield from (centre + offset for offset in self.offsets)

    def origin(self, centre: torch.Tensor) -> None:
        return None
