"""The quantiser without an order: the counterexample of Tang2024 (figure 2, upper row; table 6)."""

from __future__ import annotations

import numpy as np
import torch

from modelkeep.core.method import declare
from modelkeep.guard.defence import Defence, epsilon_setting
from modelkeep.guard.defences.modelguard_s import Centroids
from modelkeep.guard.grid import Predictions, Units, distortion


@declare("guard", "unordered", access="scores", paper="Tang2024, table 6", extra="guard", kw_only=False)
class Unordered(Defence):
    """Answers with the nearest centroid within the budget, which changes: for comparison only.

    Where no centroid is near enough, the clean prediction becomes one.

    A centroid that comes later can take over a query that was answered before, and the change tells a thief that the
    query lies between the two. Serve with `ModelGuardS`.

    >>> from modelkeep.guard.grid import confidences, snap
    >>> defence = Unordered(epsilon=0.5)
    >>> seen = snap(np.array([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4], [0.7, 0.3]]))
    >>> confidences(defence(seen, defence.initial(2))).round(3)[:, 0]
    array([0.9, 0.9, 0.6, 0.6], dtype=float32)
    """

    epsilon: float = epsilon_setting(1.0)
    stored_name = "modelkeep.guard.defences.unordered.Unordered"

    def initial(self, classes: int) -> Centroids:
        """Empty lists of centroids."""
        return Centroids(classes)

    def __call__(
        self, predictions: Predictions, state: Centroids | None = None, inputs: torch.Tensor | None = None
    ) -> Units:
        """Row after row; misses are appended to `state`."""
        state = self.initial(predictions.units.shape[1]) if state is None else state
        answers = np.empty_like(predictions.units)
        for row, (y, allowed) in enumerate(zip(predictions.units, predictions.allowed(self.epsilon), strict=True)):
            label = int(predictions.labels[row])
            distances = distortion(state.rows(label), y)
            if len(distances) == 0 or distances.min() > allowed:
                state.append(label, y)
                answers[row] = y
            else:
                answers[row] = state.rows(label)[distances.argmin()]
        return answers
