"""Harden a model: train it by a method, attack it before and after, and say what was gained and what it cost."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from modelkeep.attack.base import BoundedAttack
from modelkeep.core import plots
from modelkeep.core.black_box import require_access
from modelkeep.core.data import Data
from modelkeep.core.method import declaration_of
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.harden.adversarial import FreeTraining
from modelkeep.harden.distillation import AtTemperature, Distillation, distil
from modelkeep.harden.score import Verdict, useful, verdict
from modelkeep.training import Fitted, Objective, OwnGradients, Recipe, cross_entropy, fit
from modelkeep.training.part import load_into, tensors_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Method = Objective | OwnGradients | Distillation
"""How a network is hardened: an objective, or the two trainings of distillation."""


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
        return plots.bars(named, title=f"{self.method}: {self.verdict}", x_label="accuracy", colours=plots.PAIR)


def harden(
    model: Model,
    data: Data,
    method: Method,
    recipe: Recipe,
    *,
    held_out: Data,
    attack: BoundedAttack,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 60.0,
) -> Hardened:
    """Train `model.module` in place by a method that should make it hold; it is changed only when all went well.

    Args:
        model: Mostly one that is trained already: hardening goes on from its weights, and is compared with it.
        data: What it is trained on.
        method: One of the family "hardening", such as `PGDTraining(radius=0.1)`, or any objective. `Distillation`
            trains a teacher first, by the same recipe.
        recipe: How it is trained.
        held_out: What all accuracies are measured on.
        attack: What measures.
        seed: For all that is random.
        checkpoint: Where the state of the training is kept, as in `fit`; a teacher's beside it.
        checkpoint_seconds: How often.

    >>> import torch
    >>> from torch import nn
    >>> from modelkeep.harden import PGDTraining
    >>> data = Data(torch.eye(4), torch.arange(4) % 2, ("even", "odd"))
    >>> model = Model(nn.Linear(4, 2), input_shape=(4,), classes=data.classes)
    >>> from modelkeep.attack import PGD
    >>> method, attack = PGDTraining(radius=0.1), PGD(radius=0.1)
    >>> hardened = harden(model, data, method, Recipe(steps=50), held_out=data, attack=attack)
    >>> hardened.method, hardened.attack, hardened.clean_after.n
    ('pgd', 'PGD', 4)
    """
    require_access(model.access, "weights", "Hardening", " A defence in front of it needs none: harden.defended.")
    with measured(seed, model.fingerprint(), data.fingerprint()) as provenance:
        before = attack(model, held_out, seed=seed)
        trained = _copy(model)
        fitted, seconds = train_hardened(
            trained,
            data,
            method,
            recipe,
            held_out=held_out,
            seed=seed,
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
        )
        plain = _plain_seconds(model, data, recipe, held_out, seed)
        after = attack(trained, held_out, seed=seed)
        load_into(model.module, tensors_of(trained.module))
        model.card = trained.card  # without the guarantee of an earlier private training
        declared = declaration_of(method)
        return Hardened(
            provenance=provenance(),
            method=declared.name if declared is not None else fitted.objective,
            attack=after.attack,
            norm=attack.norm,
            radius=attack.radius,
            clean_before=before.clean_accuracy,
            clean_after=after.clean_accuracy,
            attacked_before=before.robust_accuracy,
            attacked_after=after.robust_accuracy,
            seconds=seconds,
            cost=seconds / fitted.history[-1].step / plain,
            health=(*after.health, *fitted.provenance.warnings),
            verdict=useful(
                verdict(before.robust_accuracy, after.robust_accuracy, after.health), after.clean_accuracy, held_out
            ),
            training=fitted,
        )


def train_hardened(
    model: Model,
    data: Data,
    method: Method,
    recipe: Recipe,
    *,
    held_out: Data | None = None,
    seed: int,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 60.0,
) -> tuple[Fitted, float]:
    """Only the training of `harden`, in place: what `fit` returns, and the seconds, a teacher's included."""
    train = partial(fit, seed=seed, held_out=held_out, checkpoint_seconds=checkpoint_seconds)
    taught = 0.0
    if isinstance(method, Distillation):
        teacher = _copy(model)
        beside = None if checkpoint is None else Path(checkpoint).with_suffix(".teacher")
        taught = train(teacher, data, AtTemperature(method.temperature), recipe, checkpoint=beside).provenance.seconds
        objective: Objective | OwnGradients = distil(teacher, data, temperature=method.temperature)
    else:
        objective = method
    if isinstance(method, FreeTraining):
        recipe = method.adapt(recipe)
    fitted = train(model, data, objective, recipe, checkpoint=checkpoint)
    return fitted, taught + fitted.provenance.seconds


def _plain_seconds(model: Model, data: Data, recipe: Recipe, held_out: Data, seed: int) -> float:
    """The seconds of one update in an epoch of plain training, its evaluation included as in the other."""
    epoch = replace(recipe, epochs=1, steps=None, replays=1, early_stop=None)
    fitted = fit(_copy(model), data, cross_entropy, epoch, seed=seed, held_out=held_out)
    return fitted.provenance.seconds / fitted.history[-1].step


def _copy(model: Model) -> Model:
    return Model.from_card(copy.deepcopy(model.module), model.card, model.device)
