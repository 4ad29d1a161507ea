"""Explanations by influence: which part of the network makes it answer as it does (thesis 002, chapter 3)."""

from __future__ import annotations

from modelkeep.explain.distributions import DataSet, Distribution, Gaussian, Line, Path, Point, Points, Sampler
from modelkeep.explain.influence import influence
from modelkeep.explain.meaning.concept_sensitivity import ConceptSensitivity, Sensitivity, concept_sensitivity
from modelkeep.explain.meaning.concepts import Concept, concept
from modelkeep.explain.meaning.exemplars import Exemplars, exemplars
from modelkeep.explain.meaning.explain_unit import explain_unit
from modelkeep.explain.meaning.search_space import Transformations
from modelkeep.explain.meaning.unit_sheet import Mover, UnitSheet
from modelkeep.explain.meaning.visualisation import Visualised, visualise
from modelkeep.explain.presets import (
    channel_influence,
    conductance,
    grad_cam,
    integrated_gradients,
    saliency,
    smooth_grad,
)
from modelkeep.explain.quality.experts import Experts, experts
from modelkeep.explain.quality.localisation import Localisation, localisation
from modelkeep.explain.quality.occlusion import OcclusionCurve, isolation_test, occlusion_test
from modelkeep.explain.quality.shortcuts import Shortcuts, Suspect, shortcuts
from modelkeep.explain.quality.soundness import Criterion, Inside, Soundness, soundness
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
from modelkeep.explain.result import Explained

__all__ = [
    "AgainstAll",
    "Channel",
    "ClassScore",
    "Concept",
    "ConceptSensitivity",
    "Contrast",
    "Criterion",
    "DataSet",
    "Distribution",
    "Exemplars",
    "Experts",
    "Explained",
    "Gaussian",
    "Inside",
    "Line",
    "Localisation",
    "Mover",
    "OcclusionCurve",
    "OfInner",
    "OfLogits",
    "Path",
    "Point",
    "Points",
    "PredictedScore",
    "Quantity",
    "Sampler",
    "Sensitivity",
    "Shortcuts",
    "Soundness",
    "Suspect",
    "Transformations",
    "Unit",
    "UnitSheet",
    "Visualised",
    "channel_influence",
    "concept",
    "concept_sensitivity",
    "conductance",
    "exemplars",
    "experts",
    "explain_unit",
    "grad_cam",
    "influence",
    "integrated_gradients",
    "isolation_test",
    "localisation",
    "occlusion_test",
    "saliency",
    "shortcuts",
    "smooth_grad",
    "soundness",
    "visualise",
]
