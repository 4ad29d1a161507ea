"""Extract: steal a model through its answers, as a thief would, and measure how far that goes."""

from modelkeep.extract.attacks import NAIVE, S4L, SMOOTHING, TOP_ONE, Attack, Repeated, Smoothed
from modelkeep.extract.bayes import PartialBayes, PerfectBayes
from modelkeep.extract.curve import FidelityCurve, fidelity_curve
from modelkeep.extract.extraction import Extraction, extract
from modelkeep.extract.remote import Remote
from modelkeep.extract.restorer import DDAE, DDAEPlus
from modelkeep.extract.strategies import AdaptiveKnockoff, JacobianAugmentation, Knockoff, Listed
from modelkeep.extract.target import Asked, Guarded, Target

__all__ = [
    "DDAE",
    "NAIVE",
    "S4L",
    "SMOOTHING",
    "TOP_ONE",
    "AdaptiveKnockoff",
    "Asked",
    "Attack",
    "DDAEPlus",
    "Extraction",
    "FidelityCurve",
    "Guarded",
    "JacobianAugmentation",
    "Knockoff",
    "Listed",
    "PartialBayes",
    "PerfectBayes",
    "Remote",
    "Repeated",
    "Smoothed",
    "Target",
    "extract",
    "fidelity_curve",
]
