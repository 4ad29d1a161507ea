"""Networks, data and objectives that the parties of tests build by their names."""

from __future__ import annotations

from functools import cache

import torch
from torch import nn
from torch.nn import functional

from core.slices.split_networks import CLASSES, STEPS
from modelkeep import Data, Model
from modelkeep.harden import PGDTraining
from modelkeep.training.schedules import Step
from modelkeep.zoo import datasets


@cache
def pictures() -> Data:
    """Some of the embedded digits."""
    return datasets.load("digits", "train").first(160)


@cache
def many() -> Data:
    """All digits to train with."""
    return datasets.load("digits", "train")


@cache
def sequences() -> Data:
    """Noise, whose class is the channel with the largest sum."""
    x = torch.randn(96, *STEPS, generator=torch.Generator().manual_seed(1))
    return Data(x, x.sum(1)[:, :CLASSES].argmax(1), tuple("abc"))


def digit_model(data: Data) -> Model:
    """A fresh `digit_network` for the data."""
    torch.manual_seed(0)
    return Model.load("govern.networks:digit_network", like=data)


def digit_network() -> nn.Module:
    """Convolutions with batch norm and dropout, for 8 × 8 pictures."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.Conv2d(8, 8, 3, stride=2, padding=1),
        nn.ReLU(inplace=True),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(128, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def smoothed(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
    """An objective of the answers and the labels that draws random numbers of its own."""
    logits = model.forward(x)
    noise = torch.randn(logits.shape, generator=step.generator)
    return functional.cross_entropy(logits + 0.1 * noise, y, label_smoothing=0.1)


attacked = PGDTraining(radius=0.1, steps=2)
