"""ModelKeep: trust and control for the deep model that you own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkeep.core.lazy import attach
from modelkeep.core.version import __version__ as __version__

if TYPE_CHECKING:
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
    "check_method",
    "datasets",
    "pretrained",
]

# Loaded on first use, so that `import modelkeep` and `modelkeep --help` start at once.
__getattr__, __dir__ = attach(__name__)
