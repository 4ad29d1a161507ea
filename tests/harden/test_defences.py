"""The defences of the registry: each is made of a model that it fits, and names of before are still known."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.errors import InputError
from modelkeep.core.registry import declarations
from modelkeep.harden import DefendedModel, Setting, make_defences
from modelkeep.harden.adversarial import FastTraining, FGSMTraining, FreeTraining, PGDTraining
from modelkeep.training import Linear, Recipe
from modelkeep.training.objectives import name_of

PICTURES = {"denoising-pgd", "jpeg", "bit-depth", "median", "foveation", "random-resizing"}


def setting_for(data: Data) -> Setting:
    return Setting(data, Recipe(steps=2), "linf", 0.1, seed=0)


@pytest.fixture
def data(digits: tuple[Data, Data]) -> Data:
    return digits[0].first(40)


def test_all_that_fit_are_made_and_leave_the_model_as_it_was(trained: Model, data: Data) -> None:
    before = trained.fingerprint()
    made = make_defences(trained, setting_for(data))
    assert set(made) == {*declarations("hardening"), *declarations("defence")}
    assert all(isinstance(each, DefendedModel) for each in made.values())
    assert trained.fingerprint() == before
    random = [
        name for name, each in made.items() if not torch.equal(each.model.logits(data.x), each.model.logits(data.x))
    ]
    assert random == ["random-resizing", "logit-noise"]
    # A transform without a gradient has another model for the attacker who knows it, and so has a random one.
    adaptive = {name for name, each in made.items() if each.adaptive is not None}
    assert adaptive == {"jpeg", "bit-depth", "random-resizing", "logit-noise"}


def test_of_a_table_those_for_pictures_are_not_made() -> None:
    model = Model(nn.Linear(4, 2), input_shape=(4,), classes=2, bounds=None)
    data = Data(torch.rand(20, 4), torch.arange(20) % 2, model.classes, bounds=None)
    assert set(make_defences(model, setting_for(data))) == {*declarations("hardening"), "autoencoder", "logit-noise"}


@pytest.mark.parametrize(("old", "name"), [("bit depth", "bit-depth"), ("denoising + pgd", "denoising-pgd")])
def test_names_of_before_are_known(trained: Model, data: Data, old: str, name: str) -> None:
    assert list(make_defences(trained, setting_for(data), [old])) == [name]


def test_what_cannot_be_made_is_refused(trained: Model, data: Data) -> None:
    with pytest.raises(InputError, match=r"There is no defence 'magic'\. There are: "):
        make_defences(trained, setting_for(data), ["magic"])
    free = Model.from_card(trained.module, replace(trained.card, bounds=None), trained.device)
    with pytest.raises(InputError, match="the model has none"):
        make_defences(free, setting_for(data), ["jpeg"])


@pytest.mark.parametrize(
    ("objective", "name"),
    [
        (PGDTraining(radius=0.1), "Adversarial(radius=0.1, norm='linf', steps=10, stride=0.25, random_start=True)"),
        (
            FGSMTraining(radius=0.1, norm="l2"),
            "Adversarial(radius=0.1, norm='l2', steps=1, stride=1.0, random_start=False)",
        ),
        (
            FastTraining(radius=Linear(0.0, 0.1)),
            f"Adversarial(radius={Linear(0.0, 0.1)!r}, norm='linf', steps=1, stride=1.25, random_start=True)",
        ),
        (FreeTraining(radius=0.1), "Free(radius=0.1, norm='linf')"),
    ],
)
def test_checkpoints_of_before_know_the_objective(objective: PGDTraining, name: str) -> None:
    assert name_of(objective) == name
