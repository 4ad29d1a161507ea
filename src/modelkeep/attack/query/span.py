"""The span of values that a search draws from: the model's bounds, or else the range of each feature."""

from __future__ import annotations

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model

Span = tuple[torch.Tensor, torch.Tensor]
"""The lowest and the highest value at each place of an input, `(*input_shape)` both."""


def span_of(model: Model, data: Data) -> Span:
    """The model's bounds; where it has none, the smallest and the largest value that each feature has in the data.

    >>> from torch import nn
    >>> data = Data(torch.tensor([[1.0, 20.0], [3.0, 10.0]]), torch.tensor([0, 1]), ("no", "yes"))
    >>> model = Model(nn.Linear(2, 2), input_shape=(2,), classes=data.classes, bounds=None)
    >>> span_of(model, data)
    (tensor([ 1., 10.]), tensor([ 3., 20.]))
    """
    model.require_fit(data)
    if model.bounds is not None:
        low, high = (torch.full(model.input_shape, float(end)) for end in model.bounds)
    else:
        low, high = data.x.amin(dim=0), data.x.amax(dim=0)
    if torch.equal(low, high):
        raise InputError(
            f"The model has no bounds, and no feature of '{data.name}' takes more than one value: there is no range to "
            "draw from. Give the model bounds, or attack more examples at once."
        )
    return low.to(model.device, model.dtype), high.to(model.device, model.dtype)
