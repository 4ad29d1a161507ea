"""Episodes: which one each copy of a game plays, the seed that decides it, and what it has returned so far."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Episodes:
    """The present episodes of `count` copies, in a run that was begun with the seed `run`."""

    def __init__(self, run: int, count: int) -> None:
        self._run = run
        self._numbers = [0] * count
        self._returns = [0.0] * count

    def seed(self, copy: int) -> int:
        """What decides the copy's episode, in 0 … 2³² − 1: of its own for each run, copy and number of an episode."""
        return int(np.random.SeedSequence((self._run, copy, self._numbers[copy])).generate_state(1)[0])

    def add(self, rewards: NDArray[np.float32]) -> None:
        """A step of all copies."""
        for copy, reward in enumerate(rewards.tolist()):
            self._returns[copy] += reward

    def over(self, copy: int) -> float:
        """The copy's episode has ended: its return. From here on the copy plays its next one."""
        total = self._returns[copy]
        self._numbers[copy] += 1
        self._returns[copy] = 0.0
        return total

    def to_json(self) -> dict[str, Any]:
        """Everything, to be kept."""
        return {"run": self._run, "numbers": list(self._numbers), "returns": list(self._returns)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Episodes:
        """What was kept."""
        episodes = cls(values["run"], len(values["numbers"]))
        episodes._numbers, episodes._returns = list(values["numbers"]), list(values["returns"])
        return episodes
