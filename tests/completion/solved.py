"""A small trained network on the digits, to complete in tests of procedures beyond the paper."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import torch

from modelkeep import Model
from modelkeep.completion.part import Part
from modelkeep.completion.problem import Problem
from modelkeep.completion.recording import record
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import small_cnn

CONV2 = Part("Conv 2", ("conv2",))
BOTH = Part("both convolutions", ("conv1", "conv2"))
RECIPE = Recipe(steps=40, batch_size=32, learning_rate=3e-3, evaluate_every=5)


@cache
def trained() -> Model:
    """A network that is right about most digits; not to be changed."""
    data = datasets.load("digits", "train").first(400)
    torch.manual_seed(0)
    model = Model(small_cnn((1, 8, 8), 10), input_shape=(1, 8, 8), classes=data.classes)
    fit(model, data, cross_entropy, Recipe(steps=100, batch_size=32, learning_rate=3e-3), seed=0)
    return model


def problem(part: Part = CONV2, *, recorded: bool | None = None, **changed: Any) -> Problem:
    """To complete it; `recorded` says whether a recording is given, and whether it is one of training."""
    model = changed.pop("model", trained())
    data = datasets.load("digits", "train").first(400)
    recording = None
    if recorded is not None:
        recording = record(model, part, data, passes=4, batch_size=32, seed=0, training=recorded)
    held_out = datasets.load("digits", "test").first(200)
    return Problem(**{"model": model, "part": part, "data": data, "held_out": held_out, "recipe": RECIPE,
                      "recording": recording, **changed})  # fmt: skip


def with_other_weights(layer: str) -> Model:
    """The trained network, but for one layer, which nobody but its owner knows."""
    other = Model.from_card(deepcopy(trained().module), trained().card)
    with torch.no_grad():
        for parameter in other.module.get_submodule(layer).parameters():
            parameter.mul_(-0.7)
    return other


def same_answers_by_other_weights() -> Model:
    """Twice what the first convolution gives, half of what the second takes: to the bit the same function."""
    other = Model.from_card(deepcopy(trained().module), trained().card)
    with torch.no_grad():
        for name, parameter in other.module.named_parameters():
            parameter.mul_({"conv1.weight": 2.0, "conv1.bias": 2.0, "conv2.weight": 0.5}.get(name, 1.0))
    return other


def same_weights(a: Model, b: Model) -> bool:
    """To the bit."""
    return all(map(torch.equal, a.module.state_dict().values(), b.module.state_dict().values()))
