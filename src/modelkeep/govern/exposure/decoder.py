"""Decoder: a small network that learns to go back from what crosses a cut to the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import nn
from torch.nn.functional import interpolate, mse_loss

from modelkeep.data import Data
from modelkeep.model import Model
from modelkeep.training import Adam, Recipe, fit
from modelkeep.training.schedules import Linear, Step

RECIPE = Recipe(steps=300, batch_size=32, optimizer=Adam(), learning_rate=Linear(3e-3, 1e-4))
CHANNELS, HIDDEN, SMALL = 16, 256, 4096
Shape = tuple[int, ...]


class Decoder(nn.Module):
    """From the flat row of tensors of `shapes` to a flat input of `target` shape; 0 before it has learned anything.

    Feature maps are enlarged to the picture's size and go through three convolutions. What is no map goes through a
    hidden layer; so do the maps where all of it is small enough. The two are added.
    """

    def __init__(self, shapes: Sequence[Shape], target: Shape) -> None:
        super().__init__()
        self.shapes, self.target = tuple(shapes), target
        self.maps = tuple(len(target) == 3 and len(shape) == 3 and min(shape[1:]) > 1 for shape in shapes)
        small = sum(map(prod, shapes)) <= SMALL
        self.flat = tuple(small or not is_map for is_map in self.maps)
        channels = sum(shape[0] for shape, is_map in zip(shapes, self.maps, strict=True) if is_map)
        numbers = sum(prod(shape) for shape, is_flat in zip(shapes, self.flat, strict=True) if is_flat)
        self.convolutions = self.dense = None
        if channels:
            self.convolutions = nn.Sequential(
                nn.Conv2d(channels, CHANNELS, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(CHANNELS, target[0], 3, padding=1),
            )
        if numbers:
            self.dense = nn.Sequential(nn.Linear(numbers, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, prod(target)))
        with torch.no_grad():
            for branch in (self.convolutions, self.dense):
                if branch is not None:
                    for parameter in branch[-1].parameters():
                        parameter.zero_()

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        parts = torch.split(z, [prod(shape) for shape in self.shapes], dim=1)
        found = z.new_zeros(len(z), prod(self.target))
        if self.convolutions is not None:
            known = zip(parts, self.shapes, self.maps, strict=True)
            maps = [interpolate(part.reshape(-1, *shape), self.target[1:]) for part, shape, is_map in known if is_map]
            found = found + self.convolutions(torch.cat(maps, dim=1)).flatten(1)
        if self.dense is not None:
            found = found + self.dense(
                torch.cat([part for part, is_flat in zip(parts, self.flat, strict=True) if is_flat], 1)
            )
        return found


def decode(
    known_z: torch.Tensor,
    known_u: torch.Tensor,
    z: torch.Tensor,
    shapes: Sequence[Shape],
    *,
    recipe: Recipe = RECIPE,
    seed: int,
) -> torch.Tensor:
    """The inputs behind `z: (n, numbers)`, by a decoder that learned from pairs of `known_z` and `known_u: (m, ...)`.

    The one training loop trains it: the numbers of an input stand where a classifier has its logits, and the
    objective looks up each example's true input by its index, as distillation looks up a teacher's answer.
    """
    centre, spread = known_z.mean(dim=0), known_z.std(correction=0).clamp_min(1e-12)
    target = tuple(known_u.shape[1:])
    answers = known_u.flatten(1)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        network = Decoder(shapes, target)
    outputs = answers.shape[1]
    model = Model(network, input_shape=z.shape[1:], classes=outputs, bounds=None, device=z.device)
    rows = ((known_z - centre) / spread).float().cpu()
    pairs = Data(rows, torch.zeros(len(rows), dtype=torch.int64), model.classes, name="what crossed")

    def squared_error(decoder: Model, batch: torch.Tensor, _: torch.Tensor, step: Step) -> torch.Tensor:
        return mse_loss(decoder.forward(batch), answers[step.index.to(answers.device)])

    fit(model, pairs, squared_error, recipe, seed=seed)
    with torch.no_grad():
        found = [model.forward(part) for part in torch.split(((z - centre) / spread).float(), 256)]
    return torch.cat(found).reshape(-1, *target)
