"""Every defence by its name, ready to be scored: the defended model, and what an attacker uses who knows it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from torch import nn

from modelkeep.attack.adaptive import bpda, eot
from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.core.norms import Norm
from modelkeep.explain.places import last_feature_map
from modelkeep.harden.autoencoder import Contractive, with_autoencoder
from modelkeep.harden.denoising import with_denoising
from modelkeep.harden.hardening import METHODS, train_hardened
from modelkeep.harden.jpeg import Jpeg
from modelkeep.harden.score import Defence
from modelkeep.harden.squeezing import BitDepth, MedianSmoothing
from modelkeep.harden.transforms import Foveate, LogitNoise, RandomResize, defended
from modelkeep.training import Recipe, fit

SAMPLES = 10
"""How many draws the attacker averages over who knows that a defence is random."""


@dataclass(frozen=True)
class Setting:
    """What a defence is made for: the training data and recipe, the attacker's norm and radius, the seed."""

    train: Data
    recipe: Recipe
    norm: Norm
    radius: float
    seed: int


Made = Callable[[Model, Setting], Defence]


def make_defences(model: Model, setting: Setting, names: Iterable[str] | None = None) -> dict[str, Defence]:
    """The defences of these names (None: all that fit the model), each of a copy of the model."""
    chosen = applicable(model) if names is None else tuple(names)
    if unknown := [name for name in chosen if name not in DEFENCES]:
        raise InputError(f"There is no defence '{unknown[0]}'. There are: {', '.join(DEFENCES)}.")
    made = {}
    with progress.task("making defences", len(chosen)) as task:
        for name in chosen:
            task.advance(0, name)
            made[name] = DEFENCES[name](model, setting)
            task.advance()
    return made


def applicable(model: Model) -> tuple[str, ...]:
    """The defences that can be made of this model: of pictures all, of anything else those that need none."""
    pictures = len(model.input_shape) == 3
    bounded = model.bounds is not None
    wanted = {**dict.fromkeys(FOR_PICTURES, pictures), **dict.fromkeys(FOR_BOUNDED, pictures and bounded)}
    if pictures and last_feature_map(model) is None:
        wanted["denoising + pgd"] = False
    return tuple(name for name in DEFENCES if wanted.get(name, True))


def _trained(method: str, model: Model, setting: Setting) -> Defence:
    trained = _copy(model)
    train_hardened(
        trained,
        setting.train,
        method,
        setting.recipe,
        norm=setting.norm,
        radius=setting.radius,
        seed=setting.seed,
    )
    return Defence(trained)


def _denoising(model: Model, setting: Setting) -> Defence:
    place = last_feature_map(model)
    assert place is not None  # `applicable` has looked
    return _trained("pgd", with_denoising(model, (place,), seed=setting.seed), setting)


def _autoencoder(model: Model, setting: Setting) -> Defence:
    in_front = with_autoencoder(model, seed=setting.seed)
    recipe = replace(setting.recipe, trainable=("transform",))
    fit(in_front, setting.train, Contractive(noise=setting.radius), recipe, seed=setting.seed)
    return Defence(in_front)


def _bounds(model: Model) -> tuple[float, float]:
    assert model.bounds is not None  # `applicable` has looked
    return model.bounds


def _without_gradient(transform: Callable[[Model], nn.Module], model: Model, _: Setting) -> Defence:
    changed = defended(model, transform(model))
    return Defence(changed, adaptive=bpda(changed, "transform"))


def _random(transform: nn.Module, model: Model, _: Setting) -> Defence:
    changed = defended(model, transform)
    return Defence(changed, adaptive=eot(changed, SAMPLES))


def _smooth(transform: nn.Module, model: Model, _: Setting) -> Defence:
    return Defence(defended(model, transform))


def _copy(model: Model) -> Model:
    return Model.from_card(copy.deepcopy(model.module), model.card, model.device)


DEFENCES: dict[str, Made] = {
    **{method: partial(_trained, method) for method in METHODS},
    "denoising + pgd": _denoising,
    "autoencoder": _autoencoder,
    "jpeg": partial(_without_gradient, lambda model: Jpeg(50, _bounds(model))),
    "bit depth": partial(_without_gradient, lambda model: BitDepth(3, _bounds(model))),
    "median": partial(_smooth, MedianSmoothing(2)),
    "foveation": partial(_smooth, Foveate(0.8)),
    "random resizing": partial(_random, RandomResize(0.8)),
    "logit noise": partial(_random, LogitNoise(1.0)),
}
FOR_PICTURES = ("denoising + pgd", "median", "foveation", "random resizing")
FOR_BOUNDED = ("jpeg", "bit depth")
