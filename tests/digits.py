"""The digits and small networks that were trained on them, made once per test process."""

from __future__ import annotations

from copy import deepcopy
from functools import cache

import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import dense, small_cnn


@cache
def training_digits() -> Data:
    """The digits to train on."""
    return datasets.load("digits", "train")


@cache
def held_out_digits() -> Data:
    """The digits that are held out."""
    return datasets.load("digits", "test")


@cache
def digits_cnn() -> Model:
    """A small CNN that is right about most digits. It is shared: leave it as it is, or take a copy."""
    return train_cnn(training_digits())


@cache
def digits_dense() -> Model:
    """A dense network that is right about most digits. It is shared: leave it as it is, or take a copy."""
    return _train(dense((1, 8, 8), 10), "dense", training_digits(), seed=0)


def train_cnn(data: Data, seed: int = 0) -> Model:
    """A small CNN that learned 8×8 pictures of ten classes for six epochs, in about a second."""
    return _train(small_cnn((1, 8, 8), 10), "small_cnn", data, seed)


def copy_of(model: Model) -> Model:
    """A copy that may be changed."""
    return Model.from_card(deepcopy(model.module), model.card, model.device)


def _train(module: nn.Module, architecture: str, data: Data, seed: int) -> Model:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for layer in module.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.reset_parameters()
    model = Model(
        module,
        input_shape=(1, 8, 8),
        classes=data.classes,
        architecture=f"modelkeep.architectures:{architecture}",
        arguments={"input_shape": [1, 8, 8], "classes": len(data.classes)},
    )
    fit(model, data, cross_entropy, Recipe(epochs=6, batch_size=64, learning_rate=3e-3), seed=seed)
    return model
