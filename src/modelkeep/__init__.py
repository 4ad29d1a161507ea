"""ModelKeep: trust and control for the deep model that you own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modelkeep.core.access import Labels, Scores, Weights
    from modelkeep.core.card import Preprocessing
    from modelkeep.core.data import Data
    from modelkeep.core.errors import ModelKeepError
    from modelkeep.core.model import Model
    from modelkeep.core.results import Estimate, Result
    from modelkeep.core.slices import Cut, Slice
    from modelkeep.zoo import architectures as architectures
    from modelkeep.zoo import datasets as datasets
    from modelkeep.zoo import pretrained as pretrained

__version__ = "0.1.0"

# Loaded on first use, so that `import modelkeep` and `modelkeep --help` start at once.
_HOMES = {
    "Cut": "core.slices",
    "Data": "core.data",
    "Estimate": "core.results",
    "Labels": "core.access",
    "Model": "core.model",
    "ModelKeepError": "core.errors",
    "Preprocessing": "core.card",
    "Result": "core.results",
    "Scores": "core.access",
    "Slice": "core.slices",
    "Weights": "core.access",
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


# Where a user looks for them; the rooms themselves stand in `zoo`.
_ROOMS = {"architectures": "zoo.architectures", "datasets": "zoo.datasets", "pretrained": "zoo.pretrained"}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"modelkeep.{_ROOMS[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module 'modelkeep' has no attribute '{name}'")
    return getattr(import_module(f"modelkeep.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
