"""Decoder: a small network that learns to go back from what crosses a cut to the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import nn
from torch.nn.functional import interpolate, mse_loss

from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.training import Adam, Recipe, fit
from modelkeep.training.schedules import Linear, Step

RECIPE = Recipe(steps=300, batch_size=32, optimizer=Adam(), learning_rate=Linear(3e-3, 1e-4))
CHANNELS, HIDDEN, SMALL = 16, 256, 4096
Shape = tuple[int, ...]


class Decoder(nn.Module):
    """From the flat row of tensors of `shapes` to a flat input of `target` shape; 0 before it has learned anything.

    Feature maps go through a convolution each, are enlarged to the picture's size, added, and go through two more. What
    is no map goes through a hidden layer; so do the maps where all of it is small enough. The two are added.
    """

    def __init__(self, shapes: Sequence[Shape], target: Shape) -> None:
        super().__init__()
        self.shapes, self.target = tuple(shapes), target
        small = sum(map(prod, shapes)) <= SMALL
        self.maps = [i for i, s in enumerate(shapes) if len(target) == len(s) == 3 and min(s[1:]) > 1]
        self.flat = [i for i in range(len(shapes)) if small or i not in self.maps]
        self.first = nn.ModuleList(nn.Conv2d(shapes[i][0], CHANNELS, 3, padding=1) for i in self.maps)
        self.convolutions, self.dense = nn.Sequential(), nn.Sequential()
        if self.maps:
            self.convolutions.extend(
                [
                    nn.ReLU(),
                    nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
                    nn.ReLU(),
                    nn.Conv2d(CHANNELS, target[0], 3, padding=1),
                ]
            )
        if self.flat:
            numbers = sum(prod(shapes[i]) for i in self.flat)
            self.dense.extend([nn.Linear(numbers, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, prod(target))])
        with torch.no_grad():
            for branch in (self.convolutions, self.dense):
                for parameter in branch[-1].parameters() if len(branch) else ():
                    parameter.zero_()

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        parts = torch.split(z, [prod(shape) for shape in self.shapes], dim=1)
        found = z.new_zeros(len(z), prod(self.target))
        if self.flat:
            found = found + self.dense(torch.cat([parts[i] for i in self.flat], dim=1))
        if self.maps:
            own = [first(parts[i].reshape(-1, *self.shapes[i])) for i, first in zip(self.maps, self.first, strict=True)]
            enlarged = torch.stack([interpolate(each, self.target[1:]) for each in own]).sum(dim=0)
            found = found + self.convolutions(enlarged).flatten(1)
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
