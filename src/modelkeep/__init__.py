"""ModelKeep: trust and control for the deep model that you own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkeep.core.lazy import attach
from modelkeep.core.version import __version__ as __version__

if TYPE_CHECKING:
    from modelkeep import attack as attack
    from modelkeep import audit as audit
    from modelkeep import bias as bias
    from modelkeep import certify as certify
    from modelkeep import completion as completion
    from modelkeep import encrypt as encrypt
    from modelkeep import explain as explain
    from modelkeep import extract as extract
    from modelkeep import govern as govern
    from modelkeep import guard as guard
    from modelkeep import harden as harden
    from modelkeep import privacy as privacy
    from modelkeep import report as report
    from modelkeep import rl as rl
    from modelkeep import study as study
    from modelkeep import training as training
    from modelkeep.core.access import Labels, Scores, Weights
    from modelkeep.core.card import Preprocessing
    from modelkeep.core.contract import check_method
    from modelkeep.core.data import Data
    from modelkeep.core.errors import ModelKeepError
    from modelkeep.core.model import Model
    from modelkeep.core.nest import Leaf, Nest
    from modelkeep.core.results import Estimate, Result
    from modelkeep.core.slices import Cut, Slice
    from modelkeep.zoo import architectures as architectures
    from modelkeep.zoo import datasets as datasets
    from modelkeep.zoo import pretrained as pretrained

__all__ = [
    "Cut",
    "Data",
    "Estimate",
    "Labels",
    "Leaf",
    "Model",
    "ModelKeepError",
    "Nest",
    "Preprocessing",
    "Result",
    "Scores",
    "Slice",
    "Weights",
    "architectures",
    "attack",
    "audit",
    "bias",
    "certify",
    "check_method",
    "completion",
    "datasets",
    "encrypt",
    "explain",
    "extract",
    "govern",
    "guard",
    "harden",
    "pretrained",
    "privacy",
    "report",
    "rl",
    "study",
    "training",
]

# Loaded on first use, so that `import modelkeep` and `modelkeep --help` start at once.
if not TYPE_CHECKING:  # a type checker shall know these names and no others
    __getattr__, __dir__ = attach(__name__)
