"""Privacy: what a model gives away about its training data, and training that bounds it (Leino2022, chapter 8)."""

from __future__ import annotations

from modelkeep.privacy.inversion import Inverted, InvertModel
from modelkeep.privacy.membership import (
    RMIA,
    BayesianWhiteBox,
    Entropy,
    Knowledge,
    LearnedWhiteBox,
    LiRA,
    Loss,
    Membership,
    MembershipAttack,
    ModifiedEntropy,
    Naive,
    Noise,
    Quantile,
    ShadowClassifier,
)
from modelkeep.privacy.private_training import DPSGD, AuditedEpsilon, AuditEpsilon, PrivatelyTrained
from modelkeep.privacy.property import InferProperty, PropertyInferred, Watermark, draw_watermarks
from modelkeep.privacy.shadows import Shadows, train_shadows
from modelkeep.privacy.weight_leakage import FindWeightLeak, WeightLeak

__all__ = [
    "DPSGD",
    "RMIA",
    "AuditEpsilon",
    "AuditedEpsilon",
    "BayesianWhiteBox",
    "Entropy",
    "FindWeightLeak",
    "InferProperty",
    "InvertModel",
    "Inverted",
    "Knowledge",
    "LearnedWhiteBox",
    "LiRA",
    "Loss",
    "Membership",
    "MembershipAttack",
    "ModifiedEntropy",
    "Naive",
    "Noise",
    "PrivatelyTrained",
    "PropertyInferred",
    "Quantile",
    "ShadowClassifier",
    "Shadows",
    "Watermark",
    "WeightLeak",
    "draw_watermarks",
    "train_shadows",
]
