"""The defences of ModelGuard (Tang2024), each a small function of a prediction."""

from modelkeep.guard.defences.calibration import calibrate_beta, calibrate_threshold
from modelkeep.guard.defences.mad import MAD
from modelkeep.guard.defences.misinformation import AdaptiveMisinformation, misinform
from modelkeep.guard.defences.modelguard_s import Centroids, ModelGuardS
from modelkeep.guard.defences.modelguard_w import ModelGuardW
from modelkeep.guard.defences.no_defence import NoDefence
from modelkeep.guard.defences.reverse_sigmoid import ReverseSigmoid
from modelkeep.guard.defences.rounding import Rounding
from modelkeep.guard.defences.top_one import TopOne
from modelkeep.guard.defences.unordered_quantiser import Unordered

__all__ = [
    "MAD",
    "AdaptiveMisinformation",
    "Centroids",
    "ModelGuardS",
    "ModelGuardW",
    "NoDefence",
    "ReverseSigmoid",
    "Rounding",
    "TopOne",
    "Unordered",
    "calibrate_beta",
    "calibrate_threshold",
    "misinform",
]
