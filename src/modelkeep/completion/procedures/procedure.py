"""Procedure: a way to get the missing part of a model back (T' of Martic2018, section 3.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

from modelkeep.completion.problem import Problem
from modelkeep.completion.retraining import RetrainedModel, train_and_measure
from modelkeep.core.model import Model
from modelkeep.core.registry import Declaration
from modelkeep.training import Objective, OwnGradients, Recipe, cross_entropy

__all__ = ["Procedure", "RetrainedModel", "retrain"]


class Procedure(ABC):
    """A declared method that completes the problem's model and does not change that model.

    Its cost is counted in steps: every update of any parameter is one. It uses only what its attacker has.
    """

    declaration: ClassVar[Declaration]
    title: ClassVar[str]
    """What it does, in a few words."""

    @property
    def name(self) -> str:
        """The name in tables: "T1", "T4 msra". Trials of a study store it."""
        return self.declaration.name.upper()

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        """The settings that tables show."""
        return (cls(),)

    @abstractmethod
    def __call__(self, problem: Problem, *, seed: int = 0, checkpoint: Path | None = None) -> RetrainedModel:
        """Complete the problem's model."""


def retrain(
    problem: Problem,
    model: Model,
    *,
    seed: int,
    checkpoint: Path | None,
    recipe: Recipe | None = None,
    objective: Objective | OwnGradients = cross_entropy,
) -> RetrainedModel:
    """Train `model` in place on the problem's data, by the problem's recipe unless another is given."""
    curve = train_and_measure(
        model,
        problem.data,
        problem.held_out,
        recipe or problem.recipe,
        objective=objective,
        seed=seed,
        checkpoint=checkpoint,
    )
    return RetrainedModel(curve, model)
