"""What the quantiser gives away: trials for table 6, for figure 5, and for the forms that never give a clean answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from modelkeep.extract.target import Guarded
from modelkeep.guard.information import information_bound
from modelkeep.papers.tang2024.defences import standing
from modelkeep.papers.tang2024.owner import owner

LOOKS = 12
"""At how many points of the queries the centroids are counted."""


def ask_twice(*, seed: int, task: str, plan: dict[str, Any], defence: str, epsilon: float = 1.0) -> dict[str, Any]:
    """m queries per image, m = 2: which answers changed, and how far both guesses of them are from the clean ones."""
    mine = owner(task, plan, seed)
    guarded, asked = Guarded(mine.target, standing(defence, epsilon, mine)), mine.asked
    first, second = guarded.probs(asked), guarded.probs(asked)
    changed = (first != second).any(dim=1)
    clean = mine.clean(asked).cpu()
    once, twice = ((guess - clean).double().norm(dim=1)[changed] for guess in (first, (first + second) / 2))
    return {"changed": [int(changed.sum()), len(asked)], "once": once.tolist(), "twice": twice.tolist()}


def grow(*, seed: int, task: str, plan: dict[str, Any], epsilon: float) -> dict[str, Any]:
    """How many centroids ModelGuard-S has after more and more of the thief's queries."""
    mine = owner(task, plan, seed)
    guarded, asked = Guarded(mine.target, standing("ModelGuard-S", epsilon, mine)), mine.asked
    queries, centroids = [0], [0]
    for part in asked.tensor_split(LOOKS):
        guarded.probs(part)
        queries.append(queries[-1] + len(part))
        centroids.append(sum(guarded.state.length(label) for label in range(len(mine.target.classes))))
    return {"queries": queries, "centroids": centroids}


def detect(*, seed: int, task: str, plan: dict[str, Any], defence: str, epsilon: float) -> dict[str, float]:
    """The AUROC of the top confidence as a sign of data that the target knows, after the thief has asked (figure 5)."""
    mine = owner(task, plan, seed)
    guarded = Guarded(mine.target, standing(defence, epsilon, mine))
    guarded.probs(mine.asked)
    known, unknown = (guarded.probs(data.x).amax(dim=1) for data in (mine.data.test, mine.data.unknown))
    return {"auroc": auroc(known, unknown), "n": len(known) + len(unknown)}


def auroc(positive: torch.Tensor, negative: torch.Tensor) -> float:
    """The share of pairs that are in the right order, ties counted half (the Mann–Whitney statistic).

    >>> auroc(torch.tensor([0.9, 0.5]), torch.tensor([0.5, 0.1]))
    0.875
    """
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([positive.numpy(), negative.numpy()]))
    n, m = len(positive), len(negative)
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m))


def bound(*, seed: int, task: str, plan: dict[str, Any], defence: str, epsilon: float = 1.0) -> dict[str, Any]:
    """Lemma 2's bound for the thief's queries, and the squared error of the best recovery that there could be."""
    mine = owner(task, plan, seed)
    guarded, asked = Guarded(mine.target, standing(defence, epsilon, mine)), mine.asked
    answers = guarded.probs(asked)
    found = information_bound(mine.clean(asked).cpu().numpy(), answers.numpy(), seed=seed)
    least, best = found.bound_by_answer, found.bayes_loss
    return {
        "bound": [least.value, least.low, least.high, least.n],
        "by Jensen": found.bound,
        "error": [best.value, best.low, best.high, best.n],
    }
