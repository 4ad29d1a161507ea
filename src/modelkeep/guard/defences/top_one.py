"""Top-1: answer with the label alone. The thief learns least, and the user no confidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from modelkeep.core.method import declare
from modelkeep.guard.defence import Defence
from modelkeep.guard.grid import ONE, Predictions, Units


@declare("guard", "top-1", access="labels", paper="Tang2024, section 4.2", extra="guard", also=("top1",), kw_only=False)
class TopOne(Defence):
    """Answers with the one-hot vector of the top-1 label.

    >>> from modelkeep.guard.grid import confidences, snap
    >>> confidences(TopOne()(snap(np.array([[0.2, 0.5, 0.3]]))))
    array([[0., 1., 0.]], dtype=float32)
    """

    stored_name = "modelkeep.guard.defences.top1.TopOne"

    def __call__(self, predictions: Predictions, state: Any = None, inputs: torch.Tensor | None = None) -> Units:
        answers = np.zeros_like(predictions.units)
        answers[np.arange(len(answers)), predictions.labels] = ONE
        return answers
