"""T5: the attacker may also ask the whole model, and trains on its answers instead of the labels.

Consent to inference is enough for that: the answers to the training data tell more than its labels.
"""

from __future__ import annotations

from pathlib import Path

from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures.procedure import Procedure, RetrainedModel, retrain
from modelkeep.core.access import Scores
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.method import declare, setting
from modelkeep.training import SoftAnswers

_LEAST_PROBABILITY = 1e-30
"""What a probability of 0 counts as: its logarithm is finite, and its softmax still next to nothing."""


@declare("procedure", "t5", access="weights", paper="Hinton2015, section 2")
class Distillation(Procedure):
    """T5: as T1, on the whole model's probabilities instead of the labels.

    The model is asked once for each example of the training data, before the first step, and for nothing else.
    """

    temperature: float = setting("The temperature of the probabilities.", default=1.0, above=0, below=float("inf"))
    title = "distilled"

    def __call__(self, problem: Problem, *, seed: int = 0, checkpoint: Path | None = None) -> RetrainedModel:
        view = Scores(problem.model, budget=len(problem.data))
        # The softmax of logits / T is that of log p / T.
        log_probs = view.probs(problem.data.x).clamp_min(_LEAST_PROBABILITY).log()
        answers = (log_probs / self.temperature).softmax(dim=1).cpu()
        objective = SoftAnswers(
            answers, fingerprint({"answers": answers}), problem.data.fingerprint(), self.temperature
        )
        return retrain(problem, problem.initial_model(seed), objective=objective, seed=seed, checkpoint=checkpoint)
