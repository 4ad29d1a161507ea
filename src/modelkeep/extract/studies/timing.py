"""How long a user waits for one answer under each defence (figure 6)."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import torch

from modelkeep.extract.studies.owner import owner
from modelkeep.extract.studies.standing import standing
from modelkeep.extract.target import Guarded
from modelkeep.results import Estimate

REPEATED = 100


def respond(*, seed: int, task: str, plan: dict[str, Any], defence: str, epsilon: float = 1.0) -> dict[str, Any]:
    """The median of single queries one after another, in milliseconds, when the thief has asked all of his.

    The state of a defence is then as large as it gets in this study.
    """
    mine = owner(task, plan, seed)
    guarded = Guarded(mine.target, standing(defence, epsilon, mine))
    stateful = guarded.state is not None
    guarded.probs(mine.asked if stateful else mine.asked[:8])  # also compiles what is compiled
    taken = []
    for x in torch.split(mine.data.test.x[:REPEATED], 1):
        begun = perf_counter()
        guarded.probs(x)
        taken.append(1000 * (perf_counter() - begun))
    median = Estimate.bootstrap(taken, seed, np.median)
    return {"milliseconds": [median.value, median.low, median.high, median.n]}
