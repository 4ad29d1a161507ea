"""Explanations by influence: which part of the network makes it answer as it does (Leino2022, chapter 3)."""

from __future__ import annotations

from modelkeep.explain.distributions import DataSet, Distribution, Gaussian, Line, Path, Point, Points, Sampler
from modelkeep.explain.explainers import (
    ChannelInfluence,
    Conductance,
    Explainer,
    GradCAM,
    IntegratedGradients,
    Saliency,
    SmoothGrad,
)
from modelkeep.explain.influence import Influence
from modelkeep.explain.meaning.concept_sensitivity import TCAV, ConceptSensitivity
from modelkeep.explain.meaning.concepts import Concept, learn_concept
from modelkeep.explain.meaning.exemplars import Exemplars, FindExemplars
from modelkeep.explain.meaning.search_space import Transformations
from modelkeep.explain.meaning.unit_explanation import ExplainUnits
from modelkeep.explain.meaning.unit_sheet import UnitSheet
from modelkeep.explain.meaning.visualisation import Visualise, Visualised
from modelkeep.explain.quality.experts import Experts, MeasureExperts
from modelkeep.explain.quality.localisation import Localisation, measure_localisation
from modelkeep.explain.quality.occlusion import IsolationTest, OcclusionCurve, OcclusionTest
from modelkeep.explain.quality.shortcuts import FindShortcuts, Shortcuts, Suspect
from modelkeep.explain.quality.soundness import Inside, MeasureSoundness, Soundness
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
    "TCAV",
    "AgainstAll",
    "Channel",
    "ChannelInfluence",
    "ClassScore",
    "Concept",
    "ConceptSensitivity",
    "Conductance",
    "Contrast",
    "DataSet",
    "Distribution",
    "Exemplars",
    "Experts",
    "ExplainUnits",
    "Explained",
    "Explainer",
    "FindExemplars",
    "FindShortcuts",
    "Gaussian",
    "GradCAM",
    "Influence",
    "Inside",
    "IntegratedGradients",
    "IsolationTest",
    "Line",
    "Localisation",
    "MeasureExperts",
    "MeasureSoundness",
    "OcclusionCurve",
    "OcclusionTest",
    "OfInner",
    "OfLogits",
    "Path",
    "Point",
    "Points",
    "PredictedScore",
    "Quantity",
    "Saliency",
    "Sampler",
    "Shortcuts",
    "SmoothGrad",
    "Soundness",
    "Suspect",
    "Transformations",
    "Unit",
    "UnitSheet",
    "Visualise",
    "Visualised",
    "learn_concept",
    "measure_localisation",
]
