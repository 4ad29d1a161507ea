"""Hardening: what makes a model hold against attacks, each scored by an attack that knows the defence."""

from __future__ import annotations

from modelkeep.harden.adversarial import FastTraining, FGSMTraining, FreeTraining, PGDTraining
from modelkeep.harden.autoencoder import Contractive, with_autoencoder
from modelkeep.harden.defences import DefenceMaker, Setting, make_defences
from modelkeep.harden.denoising import with_denoising
from modelkeep.harden.detection import Detected, Detector, calibrate, judge
from modelkeep.harden.distillation import Distillation, distil
from modelkeep.harden.evasion import Evaded, evade, together
from modelkeep.harden.gradient_regularisation import GradientRegularisation
from modelkeep.harden.hardening import Hardened, harden
from modelkeep.harden.jpeg import Jpeg
from modelkeep.harden.score import DefendedModel, Scoreboard, Scored, score, scoreboard
from modelkeep.harden.squeezing import BitDepth, MedianSmoothing, feature_squeezing
from modelkeep.harden.trades import Trades
from modelkeep.harden.trained_detector import train_detector
from modelkeep.harden.transforms import Foveate, LogitNoise, RandomResize, defended

__all__ = [
    "BitDepth",
    "Contractive",
    "DefenceMaker",
    "DefendedModel",
    "Detected",
    "Detector",
    "Distillation",
    "Evaded",
    "FGSMTraining",
    "FastTraining",
    "Foveate",
    "FreeTraining",
    "GradientRegularisation",
    "Hardened",
    "Jpeg",
    "LogitNoise",
    "MedianSmoothing",
    "PGDTraining",
    "RandomResize",
    "Scoreboard",
    "Scored",
    "Setting",
    "Trades",
    "calibrate",
    "defended",
    "distil",
    "evade",
    "feature_squeezing",
    "harden",
    "judge",
    "make_defences",
    "score",
    "scoreboard",
    "together",
    "train_detector",
    "with_autoencoder",
    "with_denoising",
]
