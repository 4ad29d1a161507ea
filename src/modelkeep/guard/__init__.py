"""Guard: serve a model so that a thief gets little, and every user the same answer for ever (Tang2024)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkeep.core.lazy import attach

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
    from modelkeep.guard.gate import Gate
    from modelkeep.guard.grid import confidences, snap
    from modelkeep.guard.information import InformationBound, information_bound
    from modelkeep.guard.policy import Policy
    from modelkeep.guard.store import open_store
    from modelkeep.training.fresh_network import copy_untrained

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

# Imported on first use: numba, which compiles the guards, takes a second to import.
if not TYPE_CHECKING:  # a type checker shall know these names and no others
    __getattr__, __dir__ = attach(__name__)
