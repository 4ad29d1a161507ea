"""Certify: predictions that provably cannot be changed by a small perturbation (thesis 002, chapters 6 and 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkeep.core.lazy import attach

if TYPE_CHECKING:
    from modelkeep.certify.certification import Certified, certify
    from modelkeep.certify.constants import Lipschitz, lipschitz
    from modelkeep.certify.gloro import GloRoNet
    from modelkeep.certify.guarantees import Affinity, Guarantee, RelaxedTopK, Standard
    from modelkeep.certify.lower_bounds import LipschitzBelow, lipschitz_below
    from modelkeep.certify.named_sets import NamedSets, named_sets
    from modelkeep.certify.objectives import EMMA, GloRoCrossEntropy, GloRoTrades, LipschitzMargin
    from modelkeep.certify.smoothing import ABSTAINED, NoisyTraining, Smoothed, smooth
    from modelkeep.certify.surfaces import Surface, surface
    from modelkeep.certify.training import orthogonal, train_certified

__all__ = [
    "ABSTAINED",
    "EMMA",
    "Affinity",
    "Certified",
    "GloRoCrossEntropy",
    "GloRoNet",
    "GloRoTrades",
    "Guarantee",
    "Lipschitz",
    "LipschitzBelow",
    "LipschitzMargin",
    "NamedSets",
    "NoisyTraining",
    "RelaxedTopK",
    "Smoothed",
    "Standard",
    "Surface",
    "certify",
    "lipschitz",
    "lipschitz_below",
    "named_sets",
    "orthogonal",
    "smooth",
    "surface",
    "train_certified",
]

# Loaded on first use: the verifier in this package must run where there is no torch.
__getattr__, __dir__ = attach(__name__)
