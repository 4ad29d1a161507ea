"""Adversarial examples: inputs that look the same and are answered differently."""

from __future__ import annotations

from modelkeep.attack.adaptive import bpda, eot
from modelkeep.attack.base import Attack, BoundedAttack
from modelkeep.attack.case import LEAST_LIKELY, Case, Target
from modelkeep.attack.checkpoint import resume_from
from modelkeep.attack.curve import RobustnessCurve, robustness_curve
from modelkeep.attack.ensemble import Standard
from modelkeep.attack.gradient.apgd import APGD
from modelkeep.attack.gradient.apgd_targeted import APGDTargeted
from modelkeep.attack.gradient.bim import BIM
from modelkeep.attack.gradient.fgsm import FGSM
from modelkeep.attack.gradient.ilcm import ILCM
from modelkeep.attack.gradient.mimic import Mimic
from modelkeep.attack.gradient.pgd import PGD
from modelkeep.attack.minimum_norm.cw import CW
from modelkeep.attack.minimum_norm.ddn import DDN
from modelkeep.attack.minimum_norm.deepfool import DeepFool
from modelkeep.attack.minimum_norm.fab import FAB
from modelkeep.attack.minimum_norm.fmn import FMN
from modelkeep.attack.minimum_norm.jsma import JSMA
from modelkeep.attack.minimum_norm.lbfgs import LBFGS
from modelkeep.attack.query.boundary import Boundary
from modelkeep.attack.query.one_pixel import OnePixel
from modelkeep.attack.query.square import Square
from modelkeep.attack.result import Attacked
from modelkeep.attack.text.hotflip import HotFlip
from modelkeep.attack.text.substitution import Substitution
from modelkeep.attack.transfer.momentum import Momentum
from modelkeep.attack.transfer.proxy_set import ProxySet, proxy_set
from modelkeep.attack.transfer.transfer import Transfer, Transferred
from modelkeep.attack.universal.upset import UPSET, Upset

__all__ = [
    "APGD",
    "BIM",
    "CW",
    "DDN",
    "FAB",
    "FGSM",
    "FMN",
    "ILCM",
    "JSMA",
    "LBFGS",
    "LEAST_LIKELY",
    "PGD",
    "UPSET",
    "APGDTargeted",
    "Attack",
    "Attacked",
    "Boundary",
    "BoundedAttack",
    "Case",
    "DeepFool",
    "HotFlip",
    "Mimic",
    "Momentum",
    "OnePixel",
    "ProxySet",
    "RobustnessCurve",
    "Square",
    "Standard",
    "Substitution",
    "Target",
    "Transfer",
    "Transferred",
    "Upset",
    "bpda",
    "eot",
    "proxy_set",
    "resume_from",
    "robustness_curve",
]
