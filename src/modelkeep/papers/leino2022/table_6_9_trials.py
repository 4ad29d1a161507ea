"""Train a network, plainly or as a GloRo Net, and bound its steepness from above and below: one row of table 6.9.

A file of its own, so that a change of the report does not run it again. The nets are the thesis' in `paper`; in `small`
2C2F stands in for both. Both trainings use MinMax, orthogonal weights at the start, Adam and no augmentation; the GloRo
Net's loss is EMMA (`train_certified`), where the thesis had TRADES.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import torch
from torch import nn

from modelkeep.certify.constants import lipschitz
from modelkeep.certify.guarantees import Standard
from modelkeep.certify.lower_bounds import LipschitzSearch
from modelkeep.certify.training import orthogonal, train_certified
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.study.trial import workdir
from modelkeep.training import Linear, Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import cnn_2c2f, cnn_4c3f, cnn_6c2f

_NETWORKS: dict[str, Callable[..., nn.Module]] = {"2C2F": cnn_2c2f, "4C3F": cnn_4c3f, "6C2F": cnn_6c2f}


def steepness(
    *, seed: int, data: str, method: str, radius: float, network: str, images: int, epochs: int, examples: int
) -> dict[str, Any]:
    """Train on `images` for `epochs`; local constants are those around the first `examples` test images."""
    train, test = datasets.load(data, "train").first(images), datasets.load(data, "test")
    model = trained(train, method, radius, network, epochs, seed)
    return bounded(model, test, radius, examples, seed)


def trained(train: Data, method: str, radius: float, network: str, epochs: int, seed: int) -> Model:
    """A `standard` network or a `GloRo` Net."""
    module = _NETWORKS[network](train.input_shape, len(train.classes))
    orthogonal(module, seed)
    model = Model(module, input_shape=train.input_shape, classes=train.classes, bounds=train.bounds)
    recipe = Recipe(epochs=epochs, batch_size=256, learning_rate=Linear(2e-3, 0.0))
    checkpoint = workdir() / "training"
    if method == "standard":
        fit(model, train, cross_entropy, recipe, seed=seed, checkpoint=checkpoint)
    else:
        train_certified(model, train, radius, seed=seed, recipe=recipe, from_scratch=False, checkpoint=checkpoint)
    return model


def bounded(model: Model, test: Data, radius: float, examples: int, seed: int) -> dict[str, Any]:
    """The three numbers of table 6.9, the second local one being an estimate, and how good the network is."""
    upper = lipschitz(model)
    lower = LipschitzSearch(local_radius=radius)(model, test.first(examples), seed=seed)
    assert lower.local is not None
    logits = torch.cat([model.logits(x) for x, _ in test.batches(1_000)]).double()
    verified = Standard().verified(logits, radius * upper.rate + upper.fixed(test.x), test.y)
    return {
        "global UB": upper.constant,
        "global LB": lower.constant,
        "local LB": astuple(lower.local),
        "clean accuracy": [int((logits.argmax(dim=1) == test.y).sum()), len(test)],
        "VRA": [int(verified.sum()), len(test)],
    }
