"""The defences that a scoreboard compares: each makes the defended model, and what an attacker uses who knows it."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from torch import nn

from modelkeep.attack.adaptive import bpda, eot
from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, options_of, setting
from modelkeep.core.model import Model
from modelkeep.core.norms import Norm
from modelkeep.core.registry import declarations
from modelkeep.explain.places import last_feature_map
from modelkeep.harden.adversarial import PGDTraining
from modelkeep.harden.autoencoder import Contractive, with_autoencoder
from modelkeep.harden.denoising import with_denoising
from modelkeep.harden.hardening import Method, train_hardened
from modelkeep.harden.jpeg import Jpeg
from modelkeep.harden.score import DefendedModel
from modelkeep.harden.squeezing import BitDepth, MedianSmoothing
from modelkeep.harden.transforms import Foveate, LogitNoise, RandomResize, defended
from modelkeep.training import Recipe, fit


@dataclass(frozen=True)
class Setting:
    """What a defence is made for: the training data and recipe, the attacker's norm and radius, the seed."""

    train: Data
    recipe: Recipe
    norm: Norm
    radius: float
    seed: int


class DefenceMaker:
    """Makes a defence of a model; a declared subclass is compared by `modelkeep harden --compare`."""

    needs: ClassVar[Literal["any inputs", "pictures", "pictures within bounds"]] = "any inputs"

    def fits(self, model: Model) -> bool:
        """Whether it can be made of this model."""
        pictures = self.needs == "any inputs" or len(model.input_shape) == 3
        return pictures and (self.needs != "pictures within bounds" or model.bounds is not None)

    def make(self, model: Model, setting: Setting) -> DefendedModel:
        """The defence, of a copy of the model."""
        raise NotImplementedError


def make_defences(model: Model, setting: Setting, names: Iterable[str] | None = None) -> dict[str, DefendedModel]:
    """The hardenings and defences of these names (None: all that fit the model), each of a copy of the model."""
    made: dict[str, DefendedModel] = {}
    known = {**declarations("hardening"), **declarations("defence")}
    chosen = list(known) if names is None else [_registered(name) for name in names]
    if unknown := [name for name in chosen if name not in known]:
        raise InputError(f"There is no defence '{unknown[0]}'. There are: {', '.join(known)}.")
    with progress.task("making defences", len(chosen)) as task:
        for name in chosen:
            task.advance(0, name)
            kind = known[name].load()
            if known[name].family == "hardening":
                made[name] = _train(_for_radius(kind, setting), model, setting)
            elif names is not None or kind().fits(model):
                made[name] = kind().make(model, setting)
            task.advance()
    return made


def _registered(name: str) -> str:
    """The name in the registry; until version 0.1 it was `bit depth` or `denoising + pgd`."""
    return name.replace(" + ", "-").replace(" ", "-")


def _for_radius(kind: type[Any], setting: Setting) -> Method:
    """The hardening against an attacker of that norm and radius; some need neither."""
    given = {"norm": setting.norm, "radius": setting.radius}
    made: Method = kind(**{each.name: given[each.name] for each in options_of(kind) if each.name in given})
    return made


def _train(method: Method, model: Model, setting: Setting) -> DefendedModel:
    trained = Model.from_card(copy.deepcopy(model.module), model.card, model.device)
    train_hardened(trained, setting.train, method, setting.recipe, seed=setting.seed)
    return DefendedModel(trained)


def _bounds(model: Model) -> tuple[float, float]:
    if model.bounds is None:
        raise InputError("This defence works within the bounds of the inputs, and the model has none.")
    return model.bounds


def _without_gradient(model: Model, transform: nn.Module) -> DefendedModel:
    changed = defended(model, transform)
    return DefendedModel(changed, adaptive=bpda(changed, "transform"))


@dataclass(frozen=True, kw_only=True)
class RandomDefence(DefenceMaker):
    """A defence that draws random numbers; the attacker who knows it averages over them."""

    samples: int = setting("Draws that the attacker averages over.", default=10, at_least=1)


@declare("defence", "denoising-pgd", paper="Xie2019; Saha2020, section 2.3.1")
class DenoisingDefence(DefenceMaker):
    """A denoising block after the last feature map, and PGD training."""

    needs = "pictures"

    def fits(self, model: Model) -> bool:
        """Whether it has a feature map."""
        return super().fits(model) and last_feature_map(model) is not None

    def make(self, model: Model, setting: Setting) -> DefendedModel:
        """The network with the block, trained."""
        if (place := last_feature_map(model)) is None:
            raise InputError("The model has no feature map to denoise.")
        training = PGDTraining(radius=setting.radius, norm=setting.norm)
        return _train(training, with_denoising(model, (place,), seed=setting.seed), setting)


@declare("defence", "autoencoder", paper="Gu2014; Saha2020, section 2.3.1")
class AutoencoderDefence(DefenceMaker):
    """A contractive autoencoder in front, trained on inputs with noise of the radius."""

    def make(self, model: Model, setting: Setting) -> DefendedModel:
        """The autoencoder, trained, and the network behind it as it was."""
        in_front = with_autoencoder(model, seed=setting.seed)
        recipe = replace(setting.recipe, trainable=("transform",))
        fit(in_front, setting.train, Contractive(noise=setting.radius), recipe, seed=setting.seed)
        return DefendedModel(in_front)


@declare("defence", "jpeg", paper="Dziugaite2016")
class JpegDefence(DefenceMaker):
    """JPEG compression of the input."""

    needs = "pictures within bounds"
    quality: int = setting("As in image files.", default=50, at_least=1, at_most=100)

    def make(self, model: Model, setting: Setting) -> DefendedModel:
        """The compression in front, and straight through it for the attacker."""
        return _without_gradient(model, Jpeg(self.quality, _bounds(model)))


@declare("defence", "bit-depth", paper="Xu2018")
class BitDepthDefence(DefenceMaker):
    """Values of the input rounded to few levels."""

    needs = "pictures within bounds"
    bits: int = setting("2^bits levels.", default=3, at_least=1, at_most=16)

    def make(self, model: Model, setting: Setting) -> DefendedModel:
        """The rounding in front, and straight through it for the attacker."""
        return _without_gradient(model, BitDepth(self.bits, _bounds(model)))


@declare("defence", "median", paper="Xu2018")
class MedianDefence(DefenceMaker):
    """The median of the pixels around each pixel."""

    needs = "pictures"
    size: int = setting("The side of the window, in pixels.", default=2, at_least=2)

    def make(self, model: Model, setting: Setting) -> DefendedModel:
        """The median in front; it has a gradient."""
        return DefendedModel(defended(model, MedianSmoothing(self.size)))


@declare("defence", "foveation", paper="Luo2015")
class FoveationDefence(DefenceMaker):
    """Only the middle of the picture, at full size."""

    needs = "pictures"
    share: float = setting("Of each side.", default=0.8, above=0, at_most=1)

    def make(self, model: Model, setting: Setting) -> DefendedModel:
        """The crop in front; it has a gradient."""
        return DefendedModel(defended(model, Foveate(self.share)))


@declare("defence", "random-resizing", paper="Xie2018")
class RandomResizingDefence(RandomDefence):
    """The picture at a random size and place."""

    needs = "pictures"
    smallest: float = setting("The smallest share of its size.", default=0.8, above=0, at_most=1)

    def make(self, model: Model, setting: Setting) -> DefendedModel:
        """The resizing in front, and its mean for the attacker."""
        changed = defended(model, RandomResize(self.smallest))
        return DefendedModel(changed, adaptive=eot(changed, self.samples))


@declare("defence", "logit-noise", paper="Nguyen2018")
class LogitNoiseDefence(RandomDefence):
    """Gaussian noise on the logits."""

    scale: float = setting("Its standard deviation.", default=1.0, at_least=0)

    def make(self, model: Model, setting: Setting) -> DefendedModel:
        """The noise behind the network, and its mean for the attacker."""
        changed = defended(model, LogitNoise(self.scale))
        return DefendedModel(changed, adaptive=eot(changed, self.samples))
