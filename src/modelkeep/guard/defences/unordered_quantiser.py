"""The quantiser without an order: the counterexample of paper 003 (figure 2, upper row; table 6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from modelkeep.guard.defences.modelguard_s import Centroids
from modelkeep.guard.grid import Predictions, Units, budget, distortion


@dataclass(frozen=True)
class Unordered:
    """Answer with the NEAREST centroid within the budget; where none is, append the clean prediction.

    A centroid that comes later can take over a query that was answered before, and the change tells a thief that the
    query lies between the two. Serve with `ModelGuardS`; this is here to be compared with it.

    >>> from modelkeep.guard.grid import confidences, snap
    >>> defence = Unordered(epsilon=0.5)
    >>> seen = snap(np.array([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4], [0.7, 0.3]]))
    >>> confidences(defence(seen, defence.initial(2))).round(3)[:, 0]
    array([0.9, 0.9, 0.6, 0.6], dtype=float32)
    """

    epsilon: float = 1.0
    name = "unordered"
    stored_name = "modelkeep.guard.defences.unordered.Unordered"
    keeps_top = True
    needs_inputs = False

    def __post_init__(self) -> None:
        budget(self.epsilon)

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
