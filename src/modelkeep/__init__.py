"""ModelKeep: trust and control for the deep model that you own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modelkeep.access import Labels, Scores, Weights
    from modelkeep.card import Preprocessing
    from modelkeep.data import Data
    from modelkeep.errors import ModelKeepError
    from modelkeep.model import Model
    from modelkeep.results import Estimate, Result
    from modelkeep.slices import Cut, Slice

__version__ = "0.1.0"

# Loaded on first use, so that `import modelkeep` and `modelkeep --help` start at once.
_HOMES = {
    "Cut": "slices",
    "Data": "data",
    "Estimate": "results",
    "Labels": "access",
    "Model": "model",
    "ModelKeepError": "errors",
    "Preprocessing": "card",
    "Result": "results",
    "Scores": "access",
    "Slice": "slices",
    "Weights": "access",
}

__all__ = [
    "Cut",
    "Data",
    "Estimate",
    "Labels",
    "Model",
    "ModelKeepError",
    "Preprocessing",
    "Result",
    "Scores",
    "Slice",
    "Weights",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'modelkeep' has no attribute '{name}'")
    return getattr(import_module(f"modelkeep.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
