"""T5: the attacker may also ask the whole model, and trains on its answers instead of the labels.

Consent to inference is enough for that: who may ask for the answers to the training data has more than their labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from modelkeep.completion.problem import Problem
from modelkeep.completion.retraining import Retrained, curve_of
from modelkeep.core.access import Scores
from modelkeep.core.errors import bad_parameter
from modelkeep.core.fingerprint import fingerprint
from modelkeep.training import SoftAnswers


@dataclass(frozen=True)
class Distilled:
    """T5: as T1, with the whole model's probabilities at a `temperature` in place of the labels.

    The model is asked once for each example of the training data, before the first step, and for nothing else.
    """

    temperature: float = 1.0
    name: ClassVar[str] = "T5"
    title: ClassVar[str] = "distilled"

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise bad_parameter("Distilled", "temperature", "a number above 0", self.temperature)

    def __call__(self, problem: Problem, *, seed: int, checkpoint: Path | None = None) -> Retrained:
        view = Scores(problem.model, budget=len(problem.data))
        # The softmax of logits / T is that of log p / T; a probability that is 0 stays next to nothing.
        log_probs = view.probs(problem.data.x).clamp_min(1e-30).log()
        answers = (log_probs / self.temperature).softmax(dim=1).cpu()
        objective = SoftAnswers(
            answers, fingerprint({"answers": answers}), problem.data.fingerprint(), self.temperature
        )
        model = problem.broken(seed)
        curve = curve_of(
            model,
            problem.data,
            problem.held_out,
            problem.recipe,
            objective=objective,
            seed=seed,
            checkpoint=checkpoint,
        )
        return Retrained(curve, model)
