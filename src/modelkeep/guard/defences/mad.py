"""MAD, maximising angular deviation (Orekondy et al. 2020; appendix B.2): answers that lead a thief astray."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from modelkeep.errors import bad_parameter
from modelkeep.guard.defences.angle import turn
from modelkeep.guard.defences.gram import gradients_gram
from modelkeep.guard.defences.inputs import queries
from modelkeep.guard.grid import Predictions, Units, budget
from modelkeep.model import Model

AT_ONCE = 64  # queries whose Gram matrices are in memory together


@dataclass(frozen=True)
class MAD:
    """Maximise ‖Gᵀŷ/‖Gᵀŷ‖ − Gᵀy/‖Gᵀy‖‖² under the constraints of section 3.2, G the Jacobian of log f_sur(x; w).

    The `surrogate` stands for the thief's network: one with random weights, such as `untrained(model, seed)`. A query
    costs a pass forth and back through it on C copies of the query. Up to `exact` classes the
    optimum is found (8 classes: some milliseconds, and six times longer for each class more); above, a good vertex.
    """

    surrogate: Model
    epsilon: float = 1.0
    exact: int = 8

    name = "mad"
    keeps_top = True
    needs_inputs = True

    def __post_init__(self) -> None:
        budget(self.epsilon)
        if not 0 <= self.exact <= 10:
            raise bad_parameter("MAD", "exact", "between 0 and 10 classes, with millions of vertices", self.exact)

    def initial(self, classes: int) -> None:
        """It has no state."""

    def __call__(self, predictions: Predictions, state: None = None, inputs: torch.Tensor | None = None) -> Units:
        asked = queries("MAD", self.surrogate, predictions, inputs)
        if len(predictions) == 0:
            return predictions.units
        # Whoever tries many predictions for one query, as an adaptive thief does, pays for its gradients once.
        seen: dict[bytes, int] = {}
        query = np.array([seen.setdefault(one.tobytes(), len(seen)) for one in asked.cpu().numpy()])
        first = np.unique(query, return_index=True)[1]
        allowed = predictions.allowed(self.epsilon)
        answers = np.empty_like(predictions.units)
        for start in range(0, len(first), AT_ONCE):
            grams = gradients_gram(self.surrogate, asked[first[start : start + AT_ONCE]])
            rows = np.flatnonzero((start <= query) & (query < start + AT_ONCE))
            units, labels = predictions.units[rows], predictions.labels[rows]
            answers[rows] = turn(units, labels, allowed[rows], grams, query[rows] - start, self.exact)
        return answers
