"""Procedure: a way to get the missing part of a model back, T' of section 3.2."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from modelkeep.completion.problem import Problem
from modelkeep.completion.retraining import Retrained

__all__ = ["Procedure", "Retrained"]


class Procedure(Protocol):
    """A frozen dataclass that one can call: it completes the problem's model, and leaves that model as it is.

    Its cost is counted in steps: every update of whatever it trains is one. It uses only what its attacker has.
    """

    @property
    def name(self) -> str:
        """How tables call it: "T1", "T4 msra"."""

    @property
    def title(self) -> str:
        """What it does, in a few words."""

    def __call__(self, problem: Problem, *, seed: int, checkpoint: Path | None = None) -> Retrained: ...
