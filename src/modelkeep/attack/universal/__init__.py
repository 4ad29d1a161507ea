"""Universal perturbations: one change that moves every input to a class."""

from __future__ import annotations

from modelkeep.attack.universal.upset import Upset, upset

__all__ = ["Upset", "upset"]
