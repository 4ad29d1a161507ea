"""Privacy: what a model gives away about its training data, and training that bounds it."""

from __future__ import annotations

from modelkeep.privacy.inversion import Inverted, InvertModel
from modelkeep.privacy.private_training import DPSGD, PrivatelyTrained
from modelkeep.privacy.weight_leakage import FindWeightLeak, WeightLeak

__all__ = ["DPSGD", "FindWeightLeak", "InvertModel", "Inverted", "PrivatelyTrained", "WeightLeak"]
