"""Certify: predictions that provably cannot be changed by a small perturbation (Leino2022, chapters 6 and 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkeep.core.lazy import attach

if TYPE_CHECKING:
    from modelkeep.certify.certification import Certified, Certify
    from modelkeep.certify.constants import Lipschitz, lipschitz
    from modelkeep.certify.gloro import GloRoNet
    from modelkeep.certify.guarantees import Affinity, Guarantee, RelaxedTopK, Standard
    from modelkeep.certify.lower_bounds import LipschitzBelow, LipschitzSearch
    from modelkeep.certify.named_sets import NamedSets
    from modelkeep.certify.objectives import EMMA, GloRoCrossEntropy, GloRoTrades, LipschitzMargin
    from modelkeep.certify.smoothing import ABSTAINED, NoisyTraining, Smooth, Smoothed
    from modelkeep.certify.surfaces import Surface, surface
    from modelkeep.certify.training import make_orthogonal, train_certified

__all__ = [
    "ABSTAINED",
    "EMMA",
    "Affinity",
    "Certified",
    "Certify",
    "GloRoCrossEntropy",
    "GloRoNet",
    "GloRoTrades",
    "Guarantee",
    "Lipschitz",
    "LipschitzBelow",
    "LipschitzMargin",
    "LipschitzSearch",
    "NamedSets",
    "NoisyTraining",
    "RelaxedTopK",
    "Smooth",
    "Smoothed",
    "Standard",
    "Surface",
    "lipschitz",
    "make_orthogonal",
    "surface",
    "train_certified",
]

# Loaded on first use: the verifier in this package must run where there is no torch.
if not TYPE_CHECKING:  # a type checker shall know these names and no others
    __getattr__, __dir__ = attach(__name__)
