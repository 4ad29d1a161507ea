"""Shadow models of known properties, and their reconstructions (Leino2022, algorithm 8.4, lines 2 to 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.privacy.inversion import InvertModel
from modelkeep.privacy.property.watermarks import Property
from modelkeep.training import Objective, Recipe, fit
from modelkeep.training.batches import derive_seed
from modelkeep.training.fresh_network import copy_untrained


@dataclass(frozen=True, eq=False)
class Procedure:
    """What the attacker knows (threat model 8.2): how the target was trained, on data like `data`, by which recipe.

    `like` is a model of the target's architecture; its weights do not matter.
    """

    like: Model
    data: Data
    objective: Objective
    recipe: Recipe
    properties: tuple[Property, ...]

    def __post_init__(self) -> None:
        if len(self.properties) < 2:
            raise InputError(f"Property inference tells 2 or more properties apart. Got {len(self.properties)}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The properties by name."""
        return tuple(each.name for each in self.properties)

    def train(self, which: int, seed: int) -> Model:
        """A model from fresh weights, on data with the property of that number."""
        model = copy_untrained(self.like, seed)
        fit(model, self.properties[which](self.data, seed=seed), self.objective, self.recipe, seed=seed)
        return model


def draw_properties(count: int, properties: int, seed: int) -> list[int]:
    """Which property each of `count` models has: uniform, in blocks that have each property once.

    So no property is missing where models are few, and the first models of a plan are a plan of their own.
    """
    drawn: list[int] = []
    for block in range(-(-count // properties)):
        generator = torch.Generator().manual_seed(derive_seed(seed, "properties", block))
        drawn += torch.randperm(properties, generator=generator).tolist()
    return drawn[:count]


def make_sets(
    procedure: Procedure, invert: InvertModel, which: Sequence[int], seeds: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Train models with these properties from these seeds.

    Gives the reconstructions `(n, pictures, channels, h, w)`, and what the first layer weighs each input with:
    `(n, channels, h, w)`, the root mean square over its units (`weigh_inputs`).
    """
    sets, weights = [], []
    with progress.task("shadow models", len(which)) as task:
        for one, seed in zip(which, seeds, strict=True):
            model = procedure.train(one, seed)
            sets.append(invert(model, seed=seed).x)
            weights.append(weigh_inputs(model))
            task.advance()
    return torch.stack(sets), torch.stack(weights)


def weigh_inputs(model: Model) -> torch.Tensor:
    """How strongly the first dense layer weighs each input: the root mean square over its units, `input_shape`.

    It does not depend on the order of the units, as a summary of weights must not (Ganju2018). For a network without
    such a layer it is 0, which tells nothing.
    """
    size = int(torch.tensor(model.input_shape).prod())
    for layer in model.module.modules():
        if isinstance(layer, torch.nn.Linear) and layer.in_features == size:
            return layer.weight.detach().square().mean(dim=0).sqrt().view(model.input_shape).cpu()
    return torch.zeros(model.input_shape)
