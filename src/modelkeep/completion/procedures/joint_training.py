"""T1 and T2: train everything together, or only what is missing (Martic2018, section 3.3)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures.elements import only_missing
from modelkeep.completion.procedures.procedure import Procedure, RetrainedModel, retrain
from modelkeep.core.method import declare


@declare("procedure", "t1", access="weights", paper="Martic2018, section 3.3")
class JointTraining(Procedure):
    """T1: draw the missing part anew and train everything. In the paper it is usually the fastest."""

    title = "joint"

    def __call__(self, problem: Problem, *, seed: int = 0, checkpoint: Path | None = None) -> RetrainedModel:
        return retrain(problem, problem.initial_model(seed), seed=seed, checkpoint=checkpoint)


@declare("procedure", "t2", access="weights", paper="Martic2018, section 3.3")
class FrozenTraining(Procedure):
    """T2: draw the missing part anew and train it alone; the kept part stays as it is, statistics included."""

    title = "rest frozen"

    def __call__(self, problem: Problem, *, seed: int = 0, checkpoint: Path | None = None) -> RetrainedModel:
        model = problem.initial_model(seed)
        with only_missing(model.module, problem.part) as trainable:
            recipe = replace(problem.recipe, trainable=trainable)
            return retrain(problem, model, recipe=recipe, seed=seed, checkpoint=checkpoint)
