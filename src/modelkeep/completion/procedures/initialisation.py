"""T4: as T1, but the missing part begins under another initialisation scheme (section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modelkeep.completion.initialisation import SCHEMES, Scheme
from modelkeep.completion.problem import Problem
from modelkeep.completion.retraining import Retrained, curve_of
from modelkeep.core.errors import bad_parameter


@dataclass(frozen=True)
class Initialised:
    """T4: the missing weights are drawn by `scheme`, and everything is trained."""

    scheme: Scheme

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise bad_parameter("Initialised", "scheme", f"one of {', '.join(map(repr, SCHEMES))}", self.scheme)

    @property
    def name(self) -> str:
        """Such as "T4 msra"."""
        return f"T4 {self.scheme}"

    @property
    def title(self) -> str:
        """What it does, in a few words."""
        return f"initialised by {self.scheme}"

    def __call__(self, problem: Problem, *, seed: int, checkpoint: Path | None = None) -> Retrained:
        model = problem.broken(seed, self.scheme)
        curve = curve_of(model, problem.data, problem.held_out, problem.recipe, seed=seed, checkpoint=checkpoint)
        return Retrained(curve, model)
