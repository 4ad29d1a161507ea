"""Bias amplification: does the model predict some classes more often than they occur? (Leino2022, chapter 9)

The scikit-learn estimators are in `modelkeep.bias.estimators`, which is imported on its own.
"""

from __future__ import annotations

from modelkeep.bias.amplification import Amplification, MeasureAmplification
from modelkeep.bias.features import Asymmetry, MeasureAsymmetry
from modelkeep.bias.gaussian import bayes_amplification, bayes_classifier, mahalanobis
from modelkeep.bias.mitigation import ExpertMitigation, Mitigated, ParityMitigation, SparseMitigation

__all__ = [
    "Amplification",
    "Asymmetry",
    "ExpertMitigation",
    "MeasureAmplification",
    "MeasureAsymmetry",
    "Mitigated",
    "ParityMitigation",
    "SparseMitigation",
    "bayes_amplification",
    "bayes_classifier",
    "mahalanobis",
]
