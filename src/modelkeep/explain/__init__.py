"""Explanations by influence: which part of the network makes it answer as it does (thesis 002, chapter 3)."""

from __future__ import annotations

from modelkeep.explain.distributions import DataSet, Distribution, Gaussian, Line, Path, Point, Points, Sampler
from modelkeep.explain.explained import Explained
from modelkeep.explain.influence import influence
from modelkeep.explain.presets import (
    channel_influence,
    conductance,
    grad_cam,
    integrated_gradients,
    saliency,
    smooth_grad,
)
from modelkeep.explain.quantities import (
    AgainstAll,
    Channel,
    ClassScore,
    Contrast,
    OfInner,
    OfLogits,
    PredictedScore,
    Quantity,
    Unit,
)

__all__ = [
    "AgainstAll",
    "Channel",
    "ClassScore",
    "Contrast",
    "DataSet",
    "Distribution",
    "Explained",
    "Gaussian",
    "Line",
    "OfInner",
    "OfLogits",
    "Path",
    "Point",
    "Points",
    "PredictedScore",
    "Quantity",
    "Sampler",
    "Unit",
    "channel_influence",
    "conductance",
    "grad_cam",
    "influence",
    "integrated_gradients",
    "saliency",
    "smooth_grad",
]
