"""Hardening: what makes a model hold against attacks, each scored by an attack that knows the defence."""

from __future__ import annotations

from modelkeep.harden.adversarial import Adversarial, Free, fast_training, fgsm_training, pgd_training
from modelkeep.harden.autoencoder import Autoencoder, Contractive, with_autoencoder
from modelkeep.harden.defences import DEFENCES, Setting, make_defences
from modelkeep.harden.denoising import Denoise, with_denoising
from modelkeep.harden.detection import Detected, Detector, calibrate, judge
from modelkeep.harden.distillation import AtTemperature, distil
from modelkeep.harden.evasion import Evaded, evade, together
from modelkeep.harden.gradient_regularisation import GradientRegularisation
from modelkeep.harden.hardening import METHODS, Hardened, harden
from modelkeep.harden.jpeg import Jpeg
from modelkeep.harden.score import Defence, Scoreboard, Scored, score, scoreboard, verdict
from modelkeep.harden.squeezing import BitDepth, MedianSmoothing, feature_squeezing
from modelkeep.harden.trades import Trades
from modelkeep.harden.trained_detector import train_detector
from modelkeep.harden.transforms import Foveate, LogitNoise, RandomResize, defended

__all__ = [
    "DEFENCES",
    "METHODS",
    "Adversarial",
    "AtTemperature",
    "Autoencoder",
    "BitDepth",
    "Contractive",
    "Defence",
    "Denoise",
    "Detected",
    "Detector",
    "Evaded",
    "Foveate",
    "Free",
    "GradientRegularisation",
    "Hardened",
    "Jpeg",
    "LogitNoise",
    "MedianSmoothing",
    "RandomResize",
    "Scoreboard",
    "Scored",
    "Setting",
    "Trades",
    "calibrate",
    "defended",
    "distil",
    "evade",
    "fast_training",
    "feature_squeezing",
    "fgsm_training",
    "harden",
    "judge",
    "make_defences",
    "pgd_training",
    "score",
    "scoreboard",
    "together",
    "train_detector",
    "verdict",
    "with_autoencoder",
    "with_denoising",
]
