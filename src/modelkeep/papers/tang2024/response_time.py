"""How long a user waits for one answer under each defence (figure 6)."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import torch

from modelkeep.core.results import Estimate
from modelkeep.extract.target import Guarded
from modelkeep.papers.tang2024.defences import standing
from modelkeep.papers.tang2024.owner import owner
from modelkeep.papers.tang2024.printed import NONE

REPEATED = 200


def respond(*, seed: int, task: str, plan: dict[str, Any], defence: str, epsilon: float = 1.0) -> dict[str, Any]:
    """The median milliseconds of single queries, and what the defence adds to the same query without one.

    The two are asked in turn, so that whatever else the machine does meets both. The thief has asked all of his
    questions before: the state of a defence is as large as it gets in this study.
    """
    mine = owner(task, plan, seed)
    guarded, bare = (Guarded(mine.target, standing(name, epsilon, mine)) for name in (defence, NONE))
    guarded.probs(mine.asked if guarded.state is not None else mine.asked[:8])  # also compiles what is compiled
    taken, added = [], []
    for x in torch.split(mine.data.test.x[:REPEATED], 1):
        begun = perf_counter()
        guarded.probs(x)
        between = perf_counter()
        bare.probs(x)
        taken.append(1000 * (between - begun))
        added.append(taken[-1] - 1000 * (perf_counter() - between))
    medians = {
        name: Estimate.bootstrap(each, seed, np.median) for name, each in (("milliseconds", taken), ("added", added))
    }
    return {name: [found.value, found.low, found.high, found.n] for name, found in medians.items()}
