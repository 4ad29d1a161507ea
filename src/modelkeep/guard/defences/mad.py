"""MAD, maximising angular deviation (Orekondy2020; Tang2024, appendix B.2): answers that mislead a thief's gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.guard.defence import Defence, epsilon_setting
from modelkeep.guard.defences.angle import turn
from modelkeep.guard.defences.gram import gradients_gram
from modelkeep.guard.defences.inputs import check_queries
from modelkeep.guard.grid import Predictions, Units


@declare("guard", "mad", access="scores", paper="Orekondy2020; Tang2024, appendix B.2", extra="guard", kw_only=False)
class MAD(Defence):
    """Answers with what turns a thief's gradient most, found on a surrogate of the thief's network.

    Maximises ‖Gᵀŷ/‖Gᵀŷ‖ − Gᵀy/‖Gᵀy‖‖² under the constraints of section 3.2, G the Jacobian of log f_sur(x; w).

    The `surrogate` stands for the thief's network: one with random weights, as `copy_untrained` makes it. A query
    costs a pass forth and back through it on C copies of the query. For 8 classes the optimum takes some milliseconds,
    and six times longer for each class more; above `exact` classes a good vertex is found.
    """

    surrogate: Model = setting("The thief's network with random weights, as `copy_untrained` makes it.")
    epsilon: float = epsilon_setting(1.0)
    # Ten classes have millions of vertices.
    exact: int = setting("Up to this many classes the optimum is found.", default=8, at_least=0, at_most=10)
    needs_inputs = True
    stored_name = "modelkeep.guard.defences.mad.MAD"

    def __call__(self, predictions: Predictions, state: Any = None, inputs: torch.Tensor | None = None) -> Units:
        asked = check_queries("MAD", self.surrogate, predictions, inputs)
        # Each query by itself, so that its answer does not depend on the others; and once, for an adaptive thief who
        # tries many predictions with it.
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
