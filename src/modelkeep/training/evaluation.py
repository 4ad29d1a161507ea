"""Evaluation: loss and accuracy of a classifier on data, streamed."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import torch
from torch.nn.functional import cross_entropy

from modelkeep.core.data import Data
from modelkeep.core.errors import ModelError
from modelkeep.core.examples import in_parts
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.training.parallel import ALONE, Group


def evaluate(model: Model, data: Data, batch_size: int = 512, group: Group = ALONE) -> tuple[Estimate, Estimate]:
    """The mean cross-entropy (with its normal interval) and the accuracy (with its exact one).

    Every process of a `group` measures its share; all get the same answer.
    """
    model.require_fit(data)
    model.require_eval()
    # Sums of the loss, of its square and of the right answers; read from the device only once, at the end.
    totals = torch.zeros(3, dtype=torch.float64, device=model.device)
    own = slice(group.rank, None, group.size)
    with torch.no_grad():
        for x, y in zip(in_parts(data.x[own], batch_size), torch.split(data.y[own], batch_size), strict=True):
            logits, labels = model.forward(x.to(model.device, model.dtype)), y.to(model.device)
            losses = cross_entropy(logits, labels, reduction="none").double()
            totals += torch.stack([losses.sum(), losses.square().sum(), (logits.argmax(1) == labels).sum()])
    total, squares, right = group.sum(totals).tolist()
    n = len(data)
    mean = total / n
    if not abs(mean) < float("inf"):
        raise ModelError(f"The model's loss on '{data.name}' is {mean}: its weights or its logits are not finite.")
    level = 0.95
    half = NormalDist().inv_cdf((1 + level) / 2) * sqrt(max(squares / n - mean**2, 0.0) / max(n - 1, 1))
    return Estimate(mean, mean - half, mean + half, n, level), Estimate.rate(round(right), n, level)
