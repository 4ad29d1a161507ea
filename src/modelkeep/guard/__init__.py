"""Guard: serve a model so that a thief gets little, and every user the same answer for ever (Tang2024)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modelkeep.guard.defence import Defence
    from modelkeep.guard.defences import (
        MAD,
        AdaptiveMisinformation,
        ModelGuardS,
        ModelGuardW,
        NoDefence,
        ReverseSigmoid,
        Rounding,
        TopOne,
        Unordered,
        calibrate_beta,
        calibrate_threshold,
        misinform,
    )
    from modelkeep.guard.fresh_network import copy_untrained
    from modelkeep.guard.gate import Gate
    from modelkeep.guard.grid import confidences, snap
    from modelkeep.guard.information import InformationBound, information_bound
    from modelkeep.guard.policy import Policy
    from modelkeep.guard.store import open_store

__all__ = [
    "MAD",
    "AdaptiveMisinformation",
    "Defence",
    "Gate",
    "InformationBound",
    "ModelGuardS",
    "ModelGuardW",
    "NoDefence",
    "Policy",
    "ReverseSigmoid",
    "Rounding",
    "TopOne",
    "Unordered",
    "calibrate_beta",
    "calibrate_threshold",
    "confidences",
    "copy_untrained",
    "information_bound",
    "misinform",
    "open_store",
    "snap",
]

_HOMES = {
    "Defence": "defence",
    "Gate": "gate",
    "InformationBound": "information",
    "Policy": "policy",
    "confidences": "grid",
    "copy_untrained": "fresh_network",
    "information_bound": "information",
    "open_store": "store",
    "snap": "grid",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: numba, which compiles the guards, takes a second to import."""
    if name not in __all__:
        raise AttributeError(f"module 'modelkeep.guard' has no attribute '{name}'")
    return getattr(import_module(f"modelkeep.guard.{_HOMES.get(name, 'defences')}"), name)
