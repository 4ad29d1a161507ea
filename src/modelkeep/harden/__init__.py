"""Hardening: what makes a model hold against attacks, each scored by an attack that knows the defence."""

from __future__ import annotations

from modelkeep.harden.adversarial import Adversarial, Free, fast_training, fgsm_training, pgd_training
from modelkeep.harden.distillation import AtTemperature, Distilled, distil
from modelkeep.harden.gradient_regularisation import GradientRegularisation
from modelkeep.harden.hardened import METHODS, Hardened, harden
from modelkeep.harden.score import Defence, Scoreboard, Scored, score, scoreboard, verdict
from modelkeep.harden.trades import Trades

__all__ = [
    "METHODS",
    "Adversarial",
    "AtTemperature",
    "Defence",
    "Distilled",
    "Free",
    "GradientRegularisation",
    "Hardened",
    "Scoreboard",
    "Scored",
    "Trades",
    "distil",
    "fast_training",
    "fgsm_training",
    "harden",
    "pgd_training",
    "score",
    "scoreboard",
    "verdict",
]
