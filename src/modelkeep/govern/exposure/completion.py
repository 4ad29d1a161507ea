"""How hard it is for either party of a cut to get the other's piece back by training (Martic2018, eq. 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from modelkeep.completion.hardness import Bound, Retraining, measure_hardness
from modelkeep.completion.part import Part
from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures.joint_training import FrozenTraining, JointTraining
from modelkeep.completion.retraining import RetrainedModel, train_from_scratch
from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.core.slices import Place
from modelkeep.govern.exposure.cut import Exposed
from modelkeep.training import Recipe, evaluate
from modelkeep.training.batches import derive_seed

GRID = 50
"""How often the loss of a training is measured, where its recipe does not say."""
_JUDGED = 2_000
"""… on at most this number of examples: on all of MNIST's fifth it takes ten times as long as the training itself."""


@dataclass(frozen=True)
class Completing:
    """How completion is measured: the original's `recipe` (in steps), in how many `runs`, and α, the share of its
    progress that counts as completed.
    """

    recipe: Recipe
    runs: int = 2
    alpha: float = 0.9

    def __post_init__(self) -> None:
        if self.recipe.steps is None:
            raise bad_parameter("Completing", "recipe", "a recipe with `steps`, which are what is counted", "epochs")
        if self.runs < 1:
            raise bad_parameter("Completing", "runs", "at least 1", self.runs)


@dataclass(frozen=True)
class Completion:
    """What it takes the second party to complete the first's piece, and the first to complete the second's."""

    first: Bound
    second: Bound

    @property
    def easier(self) -> Bound:
        """The piece that protects less: whose holder the other one needs least."""
        return min(self.first, self.second, key=lambda bound: bound.hardness.value)

    def __str__(self) -> str:
        told = [
            f"{b.part} {b.hardness.value:.2f} (by {b.procedure}, {b.cost:,.0f} steps)"
            for b in (self.first, self.second)
        ]
        return f"{told[0]}, {told[1]} of a training from scratch, at α = {self.first.alpha:g}"


def measure_completions(
    model: Model, data: Data, places: Sequence[Place], completing: Completing, seed: int
) -> dict[Place, Completion]:
    """At each place, both pieces: by training everything with the new piece (T1) or the piece alone (T2).

    The pieces are those of the `model`, and what counts is to be as good as it is; of a model that is not trained yet
    (no better than new weights), they are those of the training from scratch. A fifth of the data measures the error,
    or 2,000 of it.
    """
    steps = completing.recipe.steps or 0
    every = completing.recipe.evaluate_every or max(1, steps // GRID)
    recipe = replace(completing.recipe, evaluate_every=every)
    held_out, train = data.split(0.2, 0.8, seed=seed)
    held_out = held_out.sample(min(_JUDGED, len(held_out)), seed)
    pieces = {place: _pieces(model, place) for place in places}
    found: list[Retraining] = []
    right = evaluate(model, held_out)[1]
    own: Estimate | None = Estimate(1 - right.value, 1 - right.high, 1 - right.low, right.n)
    with progress.task("completion", completing.runs * (1 + 4 * len(places))) as task:
        for run in range(seed, seed + completing.runs):
            trained = train_from_scratch(model, train, held_out, recipe, seed=run)
            task.advance()
            if own is not None and own.high >= trained.curve.losses[0]:  # not better than no training beyond doubt
                own = None
            whole = trained.model if own is None else model
            for part in (part for both in pieces.values() for part in both):
                found += _retrain(Problem(whole, part, train, held_out, recipe), trained, run)
                task.advance(2, part.name)
    measured = measure_hardness(found, alphas=(completing.alpha,), own_loss=own, seed=seed)
    return _by_place(pieces, {part: measured.bound(part, completing.alpha) for part in measured.parts})


def _pieces(model: Model, place: Place) -> tuple[Part, Part]:
    exposed = Exposed.at(model, place)
    return (
        Part(f"until {place}", tuple(exposed.before.parameters)),
        Part(f"after {place}", tuple(exposed.after.parameters)),
    )


def _retrain(problem: Problem, trained: RetrainedModel, run: int) -> list[Retraining]:
    return [
        Retraining(
            problem.part.name, each.name, run, trained.curve, each(problem, seed=derive_seed(run, "retraining")).curve
        )
        for each in (JointTraining(), FrozenTraining())
    ]


def _by_place(pieces: Mapping[Place, tuple[Part, Part]], bounds: Mapping[str, Bound]) -> dict[Place, Completion]:
    return {place: Completion(bounds[a.name], bounds[b.name]) for place, (a, b) in pieces.items()}
