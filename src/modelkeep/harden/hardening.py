"""Harden a model: train it by a method, attack it before and after, and say what was gained and what it cost."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from modelkeep.attack.base import BoundedAttack
from modelkeep.attack.gradient.pgd import PGD
from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Norm
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.harden.adversarial import Free, fast_training, fgsm_training, pgd_training
from modelkeep.harden.distillation import AtTemperature, distil
from modelkeep.harden.gradient_regularisation import GradientRegularisation
from modelkeep.harden.score import Verdict, useful, verdict
from modelkeep.harden.trades import Trades
from modelkeep.training import Fitted, Objective, OwnGradients, Recipe, cross_entropy, fit
from modelkeep.training.part import load_into, tensors_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OBJECTIVES: dict[str, Callable[[float, Norm], Objective | OwnGradients]] = {
    "pgd": pgd_training,
    "fgsm": fgsm_training,
    "fast": fast_training,
    "free": Free,
    "trades": Trades,
    "gradient": lambda radius, norm: GradientRegularisation(),
}
METHODS = (*OBJECTIVES, "distil")
REPLAYS = 4
TEMPERATURE = 20.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Hardened(Result, kind="hardened"):
    """What hardening did to a model, measured on held-out data.

    `seconds` is the time of the training and `cost` that of one update over that of one update of plain training.
    The verdict compares the attacked accuracies before and after; an attack on a hardened model that is in doubt
    (`health`) leaves it unclear.
    """

    method: str
    attack: str
    norm: str
    radius: float
    clean_before: Estimate
    clean_after: Estimate
    attacked_before: Estimate
    attacked_after: Estimate
    seconds: float
    cost: float
    health: tuple[str, ...]
    verdict: Verdict
    training: Fitted = field(repr=False)

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("method", self.method),
            ("accuracy, clean", f"{self.clean_before} → {self.clean_after}"),
            (f"accuracy, {self.attack} {self.norm} {self.radius:g}", f"{self.attacked_before} → {self.attacked_after}"),
            ("cost", f"{self.seconds:.3g} s, {self.cost:.2g} × plain training per update"),
            ("health", "; ".join(self.health) or "nothing suspicious"),
            ("verdict", self.verdict),
        ]

    def draw(self) -> Figure:
        """The accuracies before and after."""
        named = {
            "clean, before": self.clean_before,
            "clean, after": self.clean_after,
            "attacked, before": self.attacked_before,
            "attacked, after": self.attacked_after,
        }
        return plots.bars(named, title=f"{self.method}: {self.verdict}", x_label="accuracy")


def harden(
    model: Model,
    data: Data,
    method: str | Objective | OwnGradients,
    recipe: Recipe,
    *,
    held_out: Data,
    norm: Norm = "linf",
    radius: float,
    attack: type[BoundedAttack] = PGD,
    seed: int,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 60.0,
) -> Hardened:
    """Train `model.module` in place by a method that should make it hold; it is changed only when all went well.

    Args:
        model: Mostly one that is trained already: hardening goes on from its weights, and is compared with it.
        data: What it is trained on.
        method: "pgd", "fgsm", "fast", "free", "trades", "gradient" or "distil" with their usual settings, or an
            objective with settings of your own. "free" replays each batch 4 times in as many times fewer epochs,
            unless the recipe has replays; "distil" trains a teacher first, by the same recipe at temperature 20.
        recipe: How it is trained.
        held_out: What all accuracies are measured on.
        norm: "linf", "l2" or "l1".
        radius: How far an attacker may move an input, in training and in the attack that measures.
        attack: What measures.
        seed: For all that is random.
        checkpoint: Where the state of the training is kept, as in `fit`; a teacher's beside it.
        checkpoint_seconds: How often.

    >>> import torch
    >>> from torch import nn
    >>> data = Data(torch.eye(4), torch.arange(4) % 2, ("even", "odd"))
    >>> model = Model(nn.Linear(4, 2), input_shape=(4,), classes=data.classes)
    >>> hardened = harden(model, data, "pgd", Recipe(steps=50), held_out=data, radius=0.1, seed=0)
    >>> hardened.method, hardened.attack, hardened.clean_after.n
    ('pgd', 'PGD', 4)
    """
    _require_known(method)  # before anything that takes long
    with measured(seed, model.fingerprint(), data.fingerprint()) as provenance:
        before = attack(norm=norm, radius=radius)(model, held_out, seed=seed)
        trained = _copy(model)
        fitted, seconds = train_hardened(
            trained,
            data,
            method,
            recipe,
            held_out=held_out,
            norm=norm,
            radius=radius,
            seed=seed,
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
        )
        plain = _plain_seconds(model, data, recipe, held_out, seed)
        after = attack(norm=norm, radius=radius)(trained, held_out, seed=seed)
        load_into(model.module, tensors_of(trained.module))
        return Hardened(
            provenance=provenance(),
            method=method if isinstance(method, str) else fitted.objective,
            attack=after.attack,
            norm=norm,
            radius=radius,
            clean_before=before.clean_accuracy,
            clean_after=after.clean_accuracy,
            attacked_before=before.robust_accuracy,
            attacked_after=after.robust_accuracy,
            seconds=seconds,
            cost=seconds / fitted.history[-1].step / plain,
            health=after.health,
            verdict=useful(
                verdict(before.robust_accuracy, after.robust_accuracy, after.health), after.clean_accuracy, held_out
            ),
            training=fitted,
        )


def train_hardened(
    model: Model,
    data: Data,
    method: str | Objective | OwnGradients,
    recipe: Recipe,
    *,
    held_out: Data | None = None,
    norm: Norm = "linf",
    radius: float,
    seed: int,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 60.0,
) -> tuple[Fitted, float]:
    """Only the training of `harden`, in place: what `fit` returns, and the seconds, a teacher's included."""
    _require_known(method)
    train = partial(fit, seed=seed, held_out=held_out, checkpoint_seconds=checkpoint_seconds)
    taught = 0.0
    objective: Objective | OwnGradients
    if method == "distil":
        teacher = _copy(model)
        beside = None if checkpoint is None else Path(checkpoint).with_suffix(".teacher")
        taught = train(teacher, data, AtTemperature(TEMPERATURE), recipe, checkpoint=beside).provenance.seconds
        objective = distil(teacher, data, temperature=TEMPERATURE)
    else:
        objective = OBJECTIVES[method](radius, norm) if isinstance(method, str) else method
    if method == "free" and recipe.replays == 1:
        recipe = replace(recipe, replays=REPLAYS, epochs=recipe.epochs and ceil(recipe.epochs / REPLAYS))
    fitted = train(model, data, objective, recipe, checkpoint=checkpoint)
    return fitted, taught + fitted.provenance.seconds


def _require_known(method: str | Objective | OwnGradients) -> None:
    if isinstance(method, str) and method not in METHODS:
        raise bad_parameter("harden", "method", f"one of {', '.join(map(repr, METHODS))}, or an objective", method)


def _plain_seconds(model: Model, data: Data, recipe: Recipe, held_out: Data, seed: int) -> float:
    """The seconds of one update in an epoch of plain training, its evaluation included as in the other."""
    epoch = replace(recipe, epochs=1, steps=None, replays=1, early_stop=None)
    fitted = fit(_copy(model), data, cross_entropy, epoch, seed=seed, held_out=held_out)
    return fitted.provenance.seconds / fitted.history[-1].step


def _copy(model: Model) -> Model:
    return Model.from_card(copy.deepcopy(model.module), model.card, model.device)
