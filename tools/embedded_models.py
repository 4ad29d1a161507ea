"""Train the small models that come with the package again: `python tools/embedded_models.py`.

Everything is fixed below, and the same machine writes the same files again. The clinic's model is trained for long on
few patients, so that it remembers them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from modelkeep.certify import train_certified
from modelkeep.core.card import Preprocessing
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.training import SGD, Adam, Linear, Recipe, cross_entropy, fit
from modelkeep.zoo import architectures, datasets, embedded

FOLDER = Path(embedded.__file__).parent
SEED = 0


def build(architecture: Callable[..., nn.Module], data: Data, preprocessing: Preprocessing | None = None) -> Model:
    """A fresh network for the data, whose first weights come from the seed."""
    arguments = {"input_shape": list(data.input_shape), "classes": len(data.classes)}
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(SEED)
        module = architecture(**arguments)
    return Model(
        module,
        input_shape=data.input_shape,
        classes=data.classes,
        preprocessing=preprocessing or Preprocessing(),
        bounds=data.bounds,
        architecture=f"modelkeep.architectures:{architecture.__name__}",
        arguments=arguments,
    )


def train_digits_cnn() -> Model:
    """The network of `modelkeep demo`."""
    train = datasets.load("digits", "train")
    model = build(architectures.small_cnn, train)
    recipe = Recipe(epochs=20, batch_size=64, optimizer=Adam(), learning_rate=2e-3)
    fit(model, train, cross_entropy, recipe, seed=SEED)
    return model


def train_digits_certified() -> Model:
    """A network that was trained to be proved."""
    train = datasets.load("digits", "train")
    model = build(architectures.cnn_2c2f, train)
    recipe = Recipe(epochs=40, batch_size=64, learning_rate=Linear(5e-3, 0.0))
    train_certified(model, train, radius=0.3, seed=SEED, recipe=recipe)
    return model


def train_clinic() -> Model:
    """A network that learned half of the patients."""
    members, _ = datasets.load("breast-cancer").split(0.5, 0.5, seed=SEED)
    units = Preprocessing(tuple(members.x.mean(dim=0).tolist()), tuple(members.x.std(dim=0).tolist()))
    model = build(architectures.dense, members, units)
    recipe = Recipe(epochs=60, batch_size=32, learning_rate=0.1, optimizer=SGD(momentum=0.9, nesterov=True))
    fit(model, members, cross_entropy, recipe, seed=SEED)
    return model


MODELS = {"digits_cnn": train_digits_cnn, "digits_certified": train_digits_certified, "clinic": train_clinic}


def main() -> None:
    """Train each and write its file."""
    for name, train in MODELS.items():
        path = train().save(FOLDER / f"{name}.safetensors")
        sys.stdout.write(f"{path}: {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
