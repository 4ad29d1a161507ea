"""The defences of ModelGuard (paper 003), each a small function of a prediction."""

from modelkeep.guard.defences.modelguard_s import Centroids, ModelGuardS
from modelkeep.guard.defences.none import NoDefence
from modelkeep.guard.defences.reverse_sigmoid import ReverseSigmoid
from modelkeep.guard.defences.rounding import Rounding
from modelkeep.guard.defences.top1 import TopOne
from modelkeep.guard.defences.unordered import Unordered

__all__ = ["Centroids", "ModelGuardS", "NoDefence", "ReverseSigmoid", "Rounding", "TopOne", "Unordered"]
