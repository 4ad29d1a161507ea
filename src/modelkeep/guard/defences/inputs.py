"""The queries themselves, for the defences that look at them."""

from __future__ import annotations

import torch

from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.guard.grid import Predictions


def check_queries(defence: str, model: Model, predictions: Predictions, inputs: torch.Tensor | None) -> torch.Tensor:
    """`inputs`, after the check that there is one per prediction and that `model` tells as many classes apart."""
    if inputs is None or len(inputs) != len(predictions):
        got = "none" if inputs is None else str(len(inputs))
        raise InputError(
            f"{defence} looks at the queries themselves: it needs {len(predictions)} inputs, one per prediction. "
            f"Got {got}. Give inputs=…"
        )
    classes = predictions.units.shape[1]
    if len(model.classes) != classes:
        raise InputError(f"{defence} was given a model of {len(model.classes)} classes for predictions of {classes}.")
    return inputs
