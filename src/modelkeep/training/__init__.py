"""The one training loop: recipes, objectives, schedules, checkpoints."""

from __future__ import annotations

from modelkeep.training.augmentation import DEFAULT, TFDS, Augmentation
from modelkeep.training.evaluation import evaluate
from modelkeep.training.history import Evaluation, Fitted
from modelkeep.training.loop import fit
from modelkeep.training.objectives import Loss, Objective, OwnGradients, SoftAnswers, Stateful, cross_entropy
from modelkeep.training.recipe import SGD, Adam, EarlyStop, Recipe, RMSProp
from modelkeep.training.schedules import (
    ExponentialAfterHalf,
    Linear,
    Logarithmic,
    Schedule,
    Step,
    StepDecay,
    at,
)

__all__ = [
    "DEFAULT",
    "SGD",
    "TFDS",
    "Adam",
    "Augmentation",
    "EarlyStop",
    "Evaluation",
    "ExponentialAfterHalf",
    "Fitted",
    "Linear",
    "Logarithmic",
    "Loss",
    "Objective",
    "OwnGradients",
    "RMSProp",
    "Recipe",
    "Schedule",
    "SoftAnswers",
    "Stateful",
    "Step",
    "StepDecay",
    "at",
    "cross_entropy",
    "evaluate",
    "fit",
]
