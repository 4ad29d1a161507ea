"""Retraining: a training whose error rate is measured on the grid of steps that Martic2018, eq. 1 needs."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from modelkeep.completion.curve import Curve
from modelkeep.completion.initialisation import reset
from modelkeep.completion.part import Part
from modelkeep.core.data import Data
from modelkeep.core.errors import CheckpointError, InputError, TrainingError
from modelkeep.core.model import Model
from modelkeep.training import Evaluation, Objective, OwnGradients, Recipe, cross_entropy, evaluate, fit
from modelkeep.training import checkpoint as checkpoints
from modelkeep.training.checkpoint import Snapshot

WHOLE = Part("the whole network", ("",))


@dataclass(frozen=True, eq=False)
class RetrainedModel:
    """The result of a training or retraining: its loss curve and the trained model."""

    curve: Curve
    model: Model


def train_and_measure(
    model: Model,
    data: Data,
    held_out: Data,
    recipe: Recipe,
    *,
    objective: Objective | OwnGradients = cross_entropy,
    seed: int = 0,
    checkpoint: Path | None = None,
) -> Curve:
    """Train `model` in place, as `fit` does; its error rate on `held_out` at 0 and at each `recipe.evaluate_every`.

    Called again with a `checkpoint` and the model as it was at the start, it resumes and ends with the same curve. A
    training that diverges gives no right answer from then on: its error rate is 1.
    """
    if recipe.steps is None or recipe.evaluate_every is None:
        raise InputError(
            "The cost of a training is counted in steps on a grid: its recipe needs steps=… and evaluate_every=…. "
            f"Got steps={recipe.steps} and evaluate_every={recipe.evaluate_every}."
        )
    if checkpoint is not None:
        _require_start(model, checkpoint)
    _, start = evaluate(model, held_out, 4 * recipe.batch_size)
    losses = {0: 1 - start.value}
    try:
        fitted = fit(model, data, objective, recipe, seed=seed, held_out=held_out, checkpoint=checkpoint)
        losses |= _error_rates(fitted.history)
    except TrainingError as error:
        losses |= _error_rates(error.history)
        grid = [*range(recipe.evaluate_every, recipe.steps, recipe.evaluate_every), recipe.steps]
        losses |= {step: 1.0 for step in grid if step not in losses}
    return Curve(tuple(losses), tuple(losses.values()))


def train_from_scratch(
    model: Model, data: Data, held_out: Data, recipe: Recipe, *, seed: int = 0, checkpoint: Path | None = None
) -> RetrainedModel:
    """T: the training of such a model from scratch. `model` gives the architecture only, and is not changed."""
    fresh = Model.from_card(deepcopy(model.module), model.card, model.device)
    reset(fresh.module, WHOLE, seed=seed)
    return RetrainedModel(train_and_measure(fresh, data, held_out, recipe, seed=seed, checkpoint=checkpoint), fresh)


def _require_start(model: Model, path: Path) -> None:
    """Only the model at the start has the loss of step 0; `fit` would also resume from the model that was reached."""
    payload = checkpoints.read(path)
    if payload is None:
        return
    if Snapshot.from_bytes(payload, f"The checkpoint {path}").identity.get("model") != model.fingerprint():
        raise CheckpointError(
            f"The checkpoint {path} belongs to a run that began with other weights than this model has. "
            "Give the model as it was at the start, or another path."
        )


def _error_rates(history: Sequence[Evaluation]) -> dict[int, float]:
    return {row.step: 1 - row.accuracy.value for row in history if row.accuracy is not None}
