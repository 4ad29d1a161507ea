"""T1 and T2: train everything together, or only what is missing (section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures.elements import only_missing
from modelkeep.completion.retraining import Retrained, curve_of


@dataclass(frozen=True)
class Joint:
    """T1: the missing part is drawn anew and everything is trained. In the paper it is usually the fastest."""

    name: ClassVar[str] = "T1"
    title: ClassVar[str] = "joint"

    def __call__(self, problem: Problem, *, seed: int, checkpoint: Path | None = None) -> Retrained:
        model = problem.broken(seed)
        curve = curve_of(model, problem.data, problem.held_out, problem.recipe, seed=seed, checkpoint=checkpoint)
        return Retrained(curve, model)


@dataclass(frozen=True)
class Frozen:
    """T2: the missing part is drawn anew and trained alone; what was kept stays as it is, statistics included."""

    name: ClassVar[str] = "T2"
    title: ClassVar[str] = "rest frozen"

    def __call__(self, problem: Problem, *, seed: int, checkpoint: Path | None = None) -> Retrained:
        model = problem.broken(seed)
        with only_missing(model.module, problem.part) as trainable:
            recipe = replace(problem.recipe, trainable=trainable)
            curve = curve_of(model, problem.data, problem.held_out, recipe, seed=seed, checkpoint=checkpoint)
        return Retrained(curve, model)
