"""Top-1: answer with the label alone. The thief learns least, and the user no confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from modelkeep.guard.grid import ONE, Predictions, Units


@dataclass(frozen=True)
class TopOne:
    """Answer with the one-hot vector of the top-1 label.

    >>> from modelkeep.guard.grid import confidences, snap
    >>> confidences(TopOne()(snap(np.array([[0.2, 0.5, 0.3]]))))
    array([[0., 1., 0.]], dtype=float32)
    """

    name = "top-1"
    stored_name = "modelkeep.guard.defences.top1.TopOne"
    keeps_top = True
    needs_inputs = False
    epsilon = 2.0

    def initial(self, classes: int) -> None:
        """No state."""

    def __call__(self, predictions: Predictions, state: None = None, inputs: torch.Tensor | None = None) -> Units:
        answers = np.zeros_like(predictions.units)
        answers[np.arange(len(answers)), predictions.labels] = ONE
        return answers
