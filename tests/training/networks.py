"""A small network with all that makes training and resuming hard."""

from __future__ import annotations

import torch
from torch import nn

from modelkeep import Model


def normed_cnn(classes: int) -> Model:
    """The same small CNN with batch norm and dropout each time, for grey images of 8×8."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(64, classes),
        )
    return Model(module, input_shape=(1, 8, 8), classes=classes)
