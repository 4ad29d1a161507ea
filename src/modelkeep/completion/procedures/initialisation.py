"""T4: as T1, but the missing part begins under another initialisation scheme (Martic2018, section 3.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from modelkeep.completion.initialisation import SCHEMES, Scheme
from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures.procedure import Procedure, RetrainedModel, retrain
from modelkeep.core.method import declare, setting


@declare("procedure", "t4", access="weights", paper="Martic2018, section 3.3")
class Initialisation(Procedure):
    """T4: draw the missing weights by another scheme, and train everything."""

    scheme: Scheme = setting("How the missing weights are drawn.", choices=SCHEMES)

    @property
    def name(self) -> str:
        """Such as "T4 msra"."""
        return f"T4 {self.scheme}"

    @property
    def title(self) -> str:  # type: ignore[override]
        """What it does, in a few words."""
        return f"initialised by {self.scheme}"

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        """Each scheme."""
        return tuple(cls(scheme=scheme) for scheme in SCHEMES)

    def __call__(self, problem: Problem, *, seed: int = 0, checkpoint: Path | None = None) -> RetrainedModel:
        return retrain(problem, problem.initial_model(seed, self.scheme), seed=seed, checkpoint=checkpoint)
