"""How well properties are told: F1 over models with its interval, and what guessing reaches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.functional import one_hot

from modelkeep.core.results import Estimate


def f1(claimed: torch.Tensor, truth: torch.Tensor, seed: int = 0) -> Estimate:
    """The F1 of claims `(n, properties)` of models that have the property `truth: (n,)`, bootstrapped over the models.

    All claims count alike (micro average): 2 TP / (2 TP + FP + FN).

    >>> right = torch.eye(3, dtype=torch.bool)
    >>> f1(right, torch.tensor([0, 1, 2])).value, f1(right, torch.tensor([0, 1, 1])).value
    (1.0, 0.6666666666666666)
    """
    wanted = one_hot(truth, claimed.shape[1]).bool()
    hits = (claimed & wanted).sum(dim=1).double().numpy()
    sizes = (claimed.sum(dim=1) + wanted.sum(dim=1)).double().numpy()

    def statistic(models: Any, axis: int) -> Any:
        drawn = np.asarray(models, dtype=np.int64)
        return 2 * hits[drawn].sum(axis=axis) / sizes[drawn].sum(axis=axis)

    return Estimate.bootstrap(np.arange(len(truth)), seed, statistic)


def chance(properties: int) -> float:
    """The best F1 without a look at the model: every property is claimed, 2 / (k + 1). One at random has only 1 / k.

    >>> round(chance(14), 3)
    0.133
    """
    return 2 / (properties + 1)
