"""Adversarial examples: inputs that look the same and are answered differently."""

from __future__ import annotations

from modelkeep.attack.adaptive import bpda, eot
from modelkeep.attack.blind.boundary import boundary
from modelkeep.attack.blind.one_pixel import one_pixel
from modelkeep.attack.blind.square import square
from modelkeep.attack.case import LEAST_LIKELY, Case, Search, Target
from modelkeep.attack.curve import RobustnessCurve, robustness_curve
from modelkeep.attack.ensemble import standard
from modelkeep.attack.frame import carry_out
from modelkeep.attack.gradient.apgd import apgd
from modelkeep.attack.gradient.bim import bim
from modelkeep.attack.gradient.fgsm import fgsm
from modelkeep.attack.gradient.ilcm import ilcm
from modelkeep.attack.gradient.pgd import pgd
from modelkeep.attack.keeper import kept
from modelkeep.attack.nearest.cw import cw
from modelkeep.attack.nearest.ddn import ddn
from modelkeep.attack.nearest.deepfool import deepfool
from modelkeep.attack.nearest.fab import fab
from modelkeep.attack.nearest.fmn import fmn
from modelkeep.attack.nearest.jsma import jsma
from modelkeep.attack.nearest.lbfgs import lbfgs
from modelkeep.attack.result import Attacked
from modelkeep.attack.transfer.proxy_set import ProxySet, proxy_set
from modelkeep.attack.transfer.transfer import Transferred, transfer
from modelkeep.attack.universal.upset import Upset, upset
from modelkeep.core.norms import Ball

__all__ = [
    "LEAST_LIKELY",
    "Attacked",
    "Ball",
    "Case",
    "ProxySet",
    "RobustnessCurve",
    "Search",
    "Target",
    "Transferred",
    "Upset",
    "apgd",
    "bim",
    "boundary",
    "bpda",
    "carry_out",
    "cw",
    "ddn",
    "deepfool",
    "eot",
    "fab",
    "fgsm",
    "fmn",
    "ilcm",
    "jsma",
    "kept",
    "lbfgs",
    "one_pixel",
    "pgd",
    "proxy_set",
    "robustness_curve",
    "square",
    "standard",
    "transfer",
    "upset",
]
