"""T6: the attacker took part in the training, and regresses the missing piece on what crossed its two cuts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from modelkeep.completion.curve import Curve
from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures.elements import only_missing
from modelkeep.completion.procedures.procedure import Procedure, RetrainedModel
from modelkeep.completion.recording import RecordedPass, Recording
from modelkeep.completion.retraining import train_and_measure
from modelkeep.core.errors import InputError
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.slices.pieces import Piece
from modelkeep.training import Adam, Step


@declare("procedure", "t6", access="weights")
class Regression(Procedure):
    """T6: let the piece learn what was recorded at its cuts for a share of the budget, then train everything as in T1.

    Every update of either phase counts as a step. In the first phase Adam trains only the missing parameters, on one
    recorded pass after another.
    """

    share: float = setting("The first phase's share of the budget.", default=0.2, above=0, below=1)
    learning_rate: float = setting("Adam's learning rate in the first phase.", default=0.03)
    title = "regressed on what crossed"

    def __call__(self, problem: Problem, *, seed: int = 0, checkpoint: Path | None = None) -> RetrainedModel:
        recording, recipe, data = problem.recording, problem.recipe, problem.data
        if recording is None:
            raise InputError("T6 learns from a recording. Give the problem one: record(model, part, data, …).")
        if recipe.steps is None or recipe.evaluate_every is None:
            raise InputError("The cost of T6 is counted on a grid: its recipe needs steps=… and evaluate_every=….")
        first = max(1, round(self.share * recipe.steps / recipe.evaluate_every)) * recipe.evaluate_every
        if first >= recipe.steps:
            raise InputError(f"A budget of {recipe.steps} steps, measured every {recipe.evaluate_every}, has no room.")
        model = problem.initial_model(seed)
        with only_missing(model.module, problem.part) as trainable:
            alone = replace(
                recipe, steps=first, optimizer=Adam(), learning_rate=self.learning_rate, trainable=trainable,
                augmentation=None, micro_batches=1,
            )  # fmt: skip
            learning = train_and_measure(
                model, data, problem.held_out, alone, objective=_Crossed.of(recording, model, problem),
                seed=seed, checkpoint=checkpoint and checkpoint.with_name(f"{checkpoint.name}.regressed"),
            )  # fmt: skip
        rest = replace(recipe, steps=recipe.steps - first)
        jointly = train_and_measure(model, data, problem.held_out, rest, seed=seed, checkpoint=checkpoint)
        steps = (*learning.steps, *(first + step for step in jointly.steps[1:]))
        return RetrainedModel(Curve(steps, learning.losses + jointly.losses[1:]), model)


@dataclass(frozen=True, eq=False)
class _Crossed:
    """The objective of the first phase: how far the piece is from doing what was recorded, relative to its size."""

    recording: Recording
    piece: Piece
    labels: tuple[torch.Tensor, ...]
    name: str

    @classmethod
    def of(cls, recording: Recording, model: Model, problem: Problem) -> _Crossed:
        """After checks that the recording is of the missing part, and that there is something to learn from it."""
        piece = recording.piece(model)
        missing = problem.part.parameters(problem.model.module)
        if strange := [name for name in missing if not any(_same(name, own) for own in piece.parameters)]:
            raise InputError(f"The recording is of the piece {piece}, which does not hold the missing {strange}.")
        if not all(passed.inputs and (passed.outputs or passed.input_gradients) for passed in recording.passes):
            raise InputError("T6 needs what went into the missing piece, and what came out of it or back from it.")
        if recording.data != fingerprint({"x": problem.data.x}):
            raise InputError("The recording is of other inputs than the problem's data.")
        tensors = {
            f"{i}/{kind}/{j}": tensor
            for i, passed in enumerate(recording.passes)
            for kind in ("inputs", "outputs", "output_gradients", "input_gradients")
            for j, tensor in enumerate(getattr(passed, kind))
            if tensor is not None
        }
        labels = tuple(problem.data.y[passed.rows] for passed in recording.passes)
        return cls(recording, piece, labels, f"regressed on {fingerprint(tensors)}")

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        number = step.number % len(self.recording.passes)
        passed, training = self.recording.passes[number], self.recording.training
        self.piece.train(training)
        slopes = any(gradient is not None for gradient in passed.input_gradients)
        inputs = [
            value.to(model.device).requires_grad_(slopes and value.is_floating_point()) for value in passed.inputs
        ]
        outputs = self.piece(inputs, training=training)
        loss = _distance(outputs, passed.outputs)
        if slopes:
            loss = loss + _distance(self._back(passed, inputs, outputs, number), passed.input_gradients)
        return loss

    def _back(
        self, passed: RecordedPass, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], number: int
    ) -> Sequence[torch.Tensor | None]:
        """The gradients that this piece gives back: vector–Jacobian products with what came from behind it.

        Of the last piece nothing comes from behind; its holder has taken the loss, and the labels are known.
        """
        if passed.output_gradients:
            pairs = [
                (o, g.to(o.device)) for o, g in zip(outputs, passed.output_gradients, strict=True) if g is not None
            ]
            ends, given = [o for o, _ in pairs], [g for _, g in pairs]
        else:
            ends, given = [cross_entropy(outputs[0], self.labels[number].to(outputs[0].device))], None
        leaves = [value for value in inputs if value.requires_grad]
        found = iter(torch.autograd.grad(ends, leaves, given, create_graph=True, allow_unused=True))
        return [next(found) if value.requires_grad else None for value in inputs]


def _distance(found: Sequence[torch.Tensor | None], wanted: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """The sum over the tensors of |found − wanted|² / |wanted|²; 0 where nothing was recorded."""
    pairs = [(f, w.to(f.device)) for f, w in zip(found, wanted, strict=False) if f is not None and w is not None]
    terms = [(f - w).square().sum() / w.square().sum().clamp_min(1e-20) for f, w in pairs if w.is_floating_point()]
    return torch.stack(terms).sum() if terms else torch.zeros(())


def _same(name: str, own: str) -> bool:
    """Whether a parameter of the piece is the named one, be it as a whole or by its missing elements."""
    path, _, last = name.rpartition(".")
    return own in (name, f"{path}.parametrizations.{last}.original".lstrip("."))
