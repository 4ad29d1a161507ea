"""Bias amplification: does the model predict some classes more often than they occur? (thesis 002, chapter 9)

The scikit-learn estimators are in `modelkeep.bias.estimators`, which is imported on its own.
"""

from __future__ import annotations

from modelkeep.bias.amplification import Amplification, Explanation, amplification
from modelkeep.bias.features import Asymmetry, asymmetry
from modelkeep.bias.gaussian import bayes_amplification, bayes_classifier, mahalanobis
from modelkeep.bias.mitigation import Mitigated, mitigate
from modelkeep.bias.selection import Experts, experts, orientation, parity, remove
from modelkeep.bias.sparse import fit_sparse

__all__ = [
    "Amplification",
    "Asymmetry",
    "Experts",
    "Explanation",
    "Mitigated",
    "amplification",
    "asymmetry",
    "bayes_amplification",
    "bayes_classifier",
    "experts",
    "fit_sparse",
    "mahalanobis",
    "mitigate",
    "orientation",
    "parity",
    "remove",
]
