"""Explanations by influence: which part of the network makes it answer as it does (thesis 002, chapter 3)."""

from __future__ import annotations

from modelkeep.explain.distributions import Distribution, Gaussian, Line, Point
from modelkeep.explain.explained import Explained
from modelkeep.explain.influence import influence
from modelkeep.explain.quantities import ClassScore, Contrast, OfLogits, PredictedScore, Quantity

__all__ = [
    "ClassScore",
    "Contrast",
    "Distribution",
    "Explained",
    "Gaussian",
    "Line",
    "OfLogits",
    "Point",
    "PredictedScore",
    "Quantity",
    "influence",
]
