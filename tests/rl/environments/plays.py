"""Actions to play, and whether two plays are the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from modelkeep.rl.environments.vector import Environments, StepResult


def draw_actions(environments: Environments, steps: int, seed: int) -> NDArray[np.int64]:
    """Random actions `(steps, copies)`."""
    return np.random.default_rng(seed).integers(0, environments.actions, (steps, environments.count))


def are_same(ours: Sequence[StepResult], theirs: Sequence[StepResult]) -> bool:
    """Whether all steps of two plays gave the same."""
    return all(
        np.array_equal(a.observations, b.observations)
        and np.array_equal(a.rewards, b.rewards)
        and np.array_equal(a.ended, b.ended)
        and a.returns == b.returns
        for a, b in zip(ours, theirs, strict=True)
    )
