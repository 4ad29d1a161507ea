"""Extract: steal a model through its answers, as a thief would, and measure how far that goes."""

from modelkeep.extract.attacks import S4L, Attack, Combined, LabelsOnly, Naive, Repeated, Smoothing
from modelkeep.extract.bayes import PartialBayes, PerfectBayes
from modelkeep.extract.curve import FidelityCurve
from modelkeep.extract.extraction import Extract, Extraction
from modelkeep.extract.remote import Remote
from modelkeep.extract.restorer import DDAE, DDAEPlus
from modelkeep.extract.strategies import AdaptiveKnockoff, JacobianAugmentation, Knockoff, Listed, Strategy
from modelkeep.extract.target import Asked, Guarded, Labelled, Target

__all__ = [
    "DDAE",
    "S4L",
    "AdaptiveKnockoff",
    "Asked",
    "Attack",
    "Combined",
    "DDAEPlus",
    "Extract",
    "Extraction",
    "FidelityCurve",
    "Guarded",
    "JacobianAugmentation",
    "Knockoff",
    "Labelled",
    "LabelsOnly",
    "Listed",
    "Naive",
    "PartialBayes",
    "PerfectBayes",
    "Remote",
    "Repeated",
    "Smoothing",
    "Strategy",
    "Target",
]
