"""T7: the attacker searches learning rates and a warm-up of the missing part, and pays for the search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import ceil, inf
from pathlib import Path

from modelkeep.completion.curve import Curve
from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures.elements import only_missing
from modelkeep.completion.procedures.procedure import Procedure, RetrainedModel
from modelkeep.completion.retraining import train_and_measure
from modelkeep.core.errors import InputError, TrainingError, bad_parameter
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.training import Step, at, evaluate
from modelkeep.training.batches import derive_seed

_DIVERGED = 1.0
"""The error rate of a training whose weights are no longer finite; even a guess has a lower one."""


@dataclass
class _Candidate:
    """A learning rate and perhaps a warm-up, and how far they have come."""

    factor: float
    warm_up: bool
    model: Model
    steps: int = 0
    loss: float = 0.0


@declare("procedure", "t7", access="weights", paper="Jamieson2016")
class RateSearch(Procedure):
    """T7: search learning rates and a warm-up of the missing part within the budget.

    The search is successive halving. Each candidate is T1 with the learning rate times a factor; one with a warm-up
    trains only the missing part in its first round. The steps of all candidates count, and the loss after a number of
    steps is the least that any candidate has shown by then. A round gives each remaining candidate its share of the
    steps, at the schedule's rate there and with a fresh optimizer; then the better half goes on.
    """

    factors: tuple[float, ...] = setting("What the learning rate is multiplied by.", default=(3.0, 1.0, 10.0))
    warm_ups: tuple[bool, ...] = setting("Whether to train the missing part alone first.", default=(False, True))
    title = "searched"

    def __post_init__(self) -> None:
        if not self.factors or not all(0 < factor < inf for factor in self.factors):
            raise bad_parameter("RateSearch", "factors", "one or more numbers above 0", self.factors)
        if not self.warm_ups:
            raise bad_parameter("RateSearch", "warm_ups", "False, True or both", self.warm_ups)

    def __call__(self, problem: Problem, *, seed: int = 0, checkpoint: Path | None = None) -> RetrainedModel:
        plan = self.plan(problem)
        candidates = {
            i: _Candidate(factor, warm_up, problem.initial_model(seed))
            for i, (factor, warm_up) in enumerate(product(self.factors, self.warm_ups))
        }
        _, start = evaluate(candidates[0].model, problem.held_out, 4 * problem.recipe.batch_size)
        steps, losses = [0], [1 - start.value]
        for number, lengths in enumerate(plan):
            left = [i for i in candidates if candidates[i].loss < _DIVERGED]
            kept = sorted(left, key=lambda i: candidates[i].loss)[: len(lengths)]
            for i, length in zip(sorted(kept), lengths, strict=False):
                path = checkpoint and checkpoint.with_name(f"{checkpoint.name}.{number}.{i}")
                curve = _continue(candidates[i], problem, length, derive_seed(seed, "searched", number), path)
                before = steps[-1]
                steps += [before + step for step in curve.steps[1:]]
                for loss in curve.losses[1:]:
                    losses.append(min(losses[-1], loss))
            candidates = {i: candidates[i] for i in kept}
        best = min(candidates.values(), key=lambda candidate: candidate.loss, default=None)
        if best is None or best.loss == _DIVERGED:
            raise TrainingError(f"No learning rate of {self.factors} times the recipe's trains this model.")
        return RetrainedModel(Curve(tuple(steps), tuple(losses)), best.model)

    def plan(self, problem: Problem) -> list[list[int]]:
        """The steps of each candidate in each round: all rounds cost about the same, and together the budget."""
        budget, every = problem.recipe.steps, problem.recipe.evaluate_every
        if budget is None or every is None:
            raise InputError("The cost of T7 is counted on a grid: its recipe needs steps=… and evaluate_every=….")
        counts = [len(self.factors) * len(self.warm_ups)]
        while counts[-1] > 1:
            counts.append(ceil(counts[-1] / 2))
        plan = [[max(1, budget // (len(counts) * count * every)) * every] * count for count in counts[:-1]]
        left = budget - sum(map(sum, plan))
        if left < every:
            raise InputError(
                f"{counts[0]} candidates need more than {budget} steps, measured every {every}. Measure more often, "
                "or search among fewer."
            )
        return [*plan, [left]]


def _continue(candidate: _Candidate, problem: Problem, length: int, seed: int, checkpoint: Path | None) -> Curve:
    """A round of one candidate. One that diverges has paid for the whole round all the same."""
    recipe, model = problem.recipe, candidate.model
    per_epoch = ceil(len(problem.data) / recipe.batch_size)
    rate = candidate.factor * at(recipe.learning_rate, Step(candidate.steps, recipe.steps or 1, per_epoch))
    recipe = replace(recipe, steps=length, learning_rate=rate)
    if candidate.warm_up and candidate.steps == 0:
        with only_missing(model.module, problem.part) as trainable:
            recipe = replace(recipe, trainable=trainable)
            curve = train_and_measure(model, problem.data, problem.held_out, recipe, seed=seed, checkpoint=checkpoint)
    else:
        curve = train_and_measure(model, problem.data, problem.held_out, recipe, seed=seed, checkpoint=checkpoint)
    candidate.loss = curve.losses[-1]
    candidate.steps += length
    return curve
