"""Membership inference: who was in the training data? (Leino2022, sections 8.2 and 8.3)"""

from __future__ import annotations

from modelkeep.privacy.membership.attack import MembershipAttack
from modelkeep.privacy.membership.bayesian import BayesianWhiteBox
from modelkeep.privacy.membership.displacement import LearnedWhiteBox
from modelkeep.privacy.membership.knowledge import Knowledge
from modelkeep.privacy.membership.lira import LiRA
from modelkeep.privacy.membership.noise import Noise
from modelkeep.privacy.membership.quantile import Quantile
from modelkeep.privacy.membership.result import Membership
from modelkeep.privacy.membership.rmia import RMIA
from modelkeep.privacy.membership.shadow_classifier import ShadowClassifier
from modelkeep.privacy.membership.thresholds import Entropy, Loss, ModifiedEntropy, Naive

__all__ = [
    "RMIA",
    "BayesianWhiteBox",
    "Entropy",
    "Knowledge",
    "LearnedWhiteBox",
    "LiRA",
    "Loss",
    "Membership",
    "MembershipAttack",
    "ModifiedEntropy",
    "Naive",
    "Noise",
    "Quantile",
    "ShadowClassifier",
]
