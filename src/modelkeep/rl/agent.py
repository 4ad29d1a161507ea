"""Agent: what the learning loop, the completion of agents and their evaluation need of A2C, Rainbow and IMPALA."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from modelkeep.rl.environments.vector import State

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Player = Callable[[NDArray[np.uint8], NDArray[np.bool_]], NDArray[np.int64]]
"""Plays: actions for observations `(n, *shape)`, and for which of them an episode has just begun (memory is reset)."""


class Agent(Protocol):
    """An agent and the environments that it learns in.

    It trains those parameters of its `network` that require a gradient when it is made; what completion resets and
    freezes is the network. The same seed and network give the same run, interrupted and resumed or not.
    """

    @property
    def network(self) -> nn.Module:
        """What it plays with and trains."""
        ...

    @property
    def settings(self) -> DataclassInstance:
        """Its settings, a dataclass of JSON values."""
        ...

    def advance(self) -> int:
        """Act and learn a little; the number of environment steps that it took, the same each time."""
        ...

    def player(self, seed: int) -> Player:
        """The policy as it is now, for evaluation; its randomness is its own, not that of the training."""
        ...

    def state(self) -> State:
        """Everything that decides how the training goes on: weights, optimizer, environments, replay, randomness."""
        ...

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken, exactly."""
        ...

    def metrics(self) -> dict[str, float]:
        """Means since the last call, such as the loss and the entropy; for the note beside the progress."""
        ...
