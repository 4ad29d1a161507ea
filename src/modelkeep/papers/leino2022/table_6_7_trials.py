"""Train a network plainly or as a GloRo Net, attack it and certify it: one row of table 6.7 of thesis 002. A file of
its own, so that a change of the report does not run it again.

"Standard" is the same network with ReLU and plain cross-entropy, as in the thesis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from modelkeep.attack import pgd
from modelkeep.certify.certification import Certify
from modelkeep.certify.objectives import EMMA, CertifiedObjective, GloRoTrades
from modelkeep.certify.training import orthogonal
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.study.trial import workdir
from modelkeep.training import Objective, Recipe, Schedule, cross_entropy, fit
from modelkeep.zoo import architectures, datasets

Counted = list[int]
"""How many of how many, so that a rate of it has its exact interval."""


@dataclass(frozen=True)
class Training:
    """How a GloRo Net is trained: its network, its loss (`weight` is TRADES' λ), ε_train and the recipe."""

    network: str
    loss: Literal["emma", "trades"]
    radius: float | Schedule
    recipe: Recipe
    weight: float | Schedule = 1.0

    def objective(self) -> CertifiedObjective:
        """The loss as an objective of the training loop."""
        return EMMA(self.radius) if self.loss == "emma" else GloRoTrades(self.radius, weight=self.weight)

    def to_json(self) -> dict[str, Any]:
        """As the parameter of a trial."""
        values = _adapter().dump_python(self, mode="json")
        assert isinstance(values, dict)
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Training:
        """What `to_json` wrote."""
        return _adapter().validate_python(dict(values))


@cache
def _adapter() -> TypeAdapter[Training]:
    return TypeAdapter(Training)


def verify(
    *, seed: int, data: str, radius: float, method: str, training: dict[str, Any], attacked: int, steps: int
) -> dict[str, Any]:
    """Train by `method`, "standard" or "GloRo"; count what is right, stands against PGD and is certified."""
    train, test = datasets.load(data, "train"), datasets.load(data, "test")
    return verify_on(train, test, seed, radius, method, Training.from_json(training), attacked, steps)


def verify_on(
    train: Data, test: Data, seed: int, radius: float, method: str, training: Training, attacked: int, steps: int
) -> dict[str, Any]:
    """The same on any data."""
    model = trained(train, method, training, seed, workdir() / "training")
    found = Certify(radius=radius)(model, test)
    moved = pgd(model, test.first(attacked), norm="l2", radius=radius, steps=steps, seed=seed).robust_accuracy
    return {
        "clean": _counted(found.clean),
        "PGD": _counted(moved),
        "VRA": _counted(found.verified),
        "VRA in exact arithmetic": _counted(found.verified_exactly),
        "epochs": training.recipe.epochs,
    }


def trained(train: Data, method: str, training: Training, seed: int, checkpoint: Path | None = None) -> Model:
    """The network after its training, which goes on from the checkpoint where it was stopped."""
    factory = getattr(architectures, training.network)
    objective: Objective = cross_entropy
    if method == "GloRo":
        module, objective = factory(train.input_shape, len(train.classes)), training.objective()
    else:
        module = factory(train.input_shape, len(train.classes), activation="relu")
    orthogonal(module, seed)
    model = Model(module, input_shape=train.input_shape, classes=train.classes, bounds=train.bounds)
    fit(model, train, objective, training.recipe, seed=seed, checkpoint=checkpoint)
    return model


def _counted(rate: Estimate) -> Counted:
    return [round(rate.value * rate.n), rate.n]
