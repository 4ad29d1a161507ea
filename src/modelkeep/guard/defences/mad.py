"""MAD, maximising angular deviation (Orekondy et al. 2020; appendix B.2): answers that lead a thief astray."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.guard.defences.angle import turn
from modelkeep.guard.defences.gram import gradients_gram
from modelkeep.guard.defences.inputs import queries
from modelkeep.guard.grid import Predictions, Units, budget


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
    stored_name = "modelkeep.guard.defences.mad.MAD"
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
        # Each query by itself, so that its answer does not depend on the others; and once, for whoever tries many
        # predictions with it, as an adaptive thief does.
        rows: dict[bytes, list[int]] = {}
        for row, query in enumerate(asked.cpu().numpy()):
            rows.setdefault(query.tobytes(), []).append(row)
        allowed = predictions.allowed(self.epsilon)
        answers = np.empty_like(predictions.units)
        for same in rows.values():
            gram = gradients_gram(self.surrogate, asked[same[:1]])
            units, labels = predictions.units[same], predictions.labels[same]
            answers[same] = turn(units, labels, allowed[same], gram, self.exact)
        return answers
