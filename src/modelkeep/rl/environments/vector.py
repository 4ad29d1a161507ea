"""Environments: many copies of one game, stepped together, whose whole state can be kept and put back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

State = tuple[dict[str, torch.Tensor], dict[str, Any]]
"""What a checkpoint keeps of something: tensors by name, and JSON values."""


def within(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """The tensors whose names begin with `prefix`, without it: what a part put into the state of the whole."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step of all copies gave.

    A copy whose episode is over has begun its next one: its observation is the first of that. `ended` is what a learner
    takes for the end of an episode (also a lost life, where the game is told so); `returns` are the sums of rewards of
    the episodes that really ended in this step.
    """

    observations: NDArray[np.uint8]  # (count, *observation_shape)
    rewards: NDArray[np.float32]  # (count,), as the game gives them
    ended: NDArray[np.bool_]  # (count,)
    returns: tuple[float, ...]


class Environments(Protocol):
    """`count` copies of the game `name`. An episode ends after a limit of steps (Martic2018, section 3)."""

    name: str
    count: int
    observation_shape: tuple[int, ...]
    actions: int
    action_names: tuple[str, ...]  # one for each of the actions; the first does nothing

    def reset(self, seed: int) -> NDArray[np.uint8]:
        """Begin anew, all copies, each with randomness of its own that the seed decides."""
        ...

    def step(self, actions: NDArray[np.int64]) -> StepResult:
        """One step of all copies. What it returns is not overwritten later."""
        ...

    def state(self) -> State:
        """Everything that decides what comes next."""
        ...

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken, exactly."""
        ...

    def close(self) -> None:
        """Give processes, threads and windows back."""
        ...
