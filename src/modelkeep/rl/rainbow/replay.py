"""Replay: the last transitions of all copies, drawn by priority, each with its n-step return."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.errors import InputError
from modelkeep.rl.environments.vector import State
from modelkeep.rl.rainbow.frames import Frames
from modelkeep.rl.rainbow.settings import RainbowSettings
from modelkeep.rl.rainbow.sum_tree import SumTree

_LEAST = 1e-6  # so that no transition is never drawn again


@dataclass(frozen=True, slots=True)
class Batch:
    """Transitions from o_t to o_{t+n}."""

    indices: NDArray[np.int64]  # where they are in the replay
    observations: torch.Tensor
    actions: torch.Tensor
    returns: torch.Tensor  # R = Σ_{k<n} γ^k r_{t+k+1}, up to the end of the episode
    discounts: torch.Tensor  # γ^n, and 0 where the episode ended before o_{t+n}
    next_observations: torch.Tensor
    weights: torch.Tensor  # importance weights, the largest of them 1

    def to(self, device: torch.device) -> Batch:
        """The same with its tensors on the device."""
        return Batch(
            self.indices,
            self.observations.to(device),
            self.actions.to(device),
            self.returns.to(device),
            self.discounts.to(device),
            self.next_observations.to(device),
            self.weights.to(device),
        )


class Replay:
    """A ring of steps. In each, all copies observe, act, and get a reward; a place in it is `slot * count + copy`.

    Observations are stored once: o_{t+n} is the observation of the slot that is n further. A transition has priority 0
    until that one is known, and again as soon as a part of it is overwritten; then it cannot be drawn.
    """

    def __init__(self, settings: RainbowSettings, count: int, shape: tuple[int, ...]) -> None:
        self.settings, self.count, self.shape = settings, count, shape
        self.length = settings.capacity // count
        self.frames = Frames(settings.keeping, self.length, count, shape)
        if self.length <= settings.n_step + self.frames.depth:
            raise InputError(
                f"A replay of {settings.capacity:,} transitions is too small for {count} copies: each needs more than "
                f"{settings.n_step + self.frames.depth}. Give a larger capacity or fewer copies."
            )
        self.actions = np.zeros((self.length, count), dtype=np.int64)
        self.rewards = np.zeros((self.length, count), dtype=np.float32)
        self.ended = np.zeros((self.length, count), dtype=np.bool_)
        self.tree = SumTree(self.length * count)
        self.largest = 1.0  # priority so far; new transitions get it, so that each is drawn soon
        self.steps = 0  # that were ever added
        self.unbroken = 0  # of the latest ones, how many follow upon each other

    def __len__(self) -> int:
        """How many steps of how many copies it holds."""
        return min(self.steps, self.length) * self.count

    def add(
        self,
        observations: NDArray[np.uint8],
        actions: NDArray[np.int64],
        rewards: NDArray[np.float32],
        ended: NDArray[np.bool_],
    ) -> None:
        """What all copies saw, what they did then, what they got for it, and whether that ended the episode."""
        slot = self.steps % self.length
        self.frames.write(slot, observations, first=self.unbroken == 0)
        self.actions[slot], self.rewards[slot], self.ended[slot] = actions, rewards, ended
        self.steps += 1
        self.unbroken += 1
        lost = (slot + self.frames.depth - 1) % self.length  # the oldest that needed the frame that was here
        self.tree.set(self._places(lost), np.zeros(self.count))
        if self.unbroken > self.settings.n_step:
            complete = (slot - self.settings.n_step) % self.length
            self.tree.set(self._places(complete), np.full(self.count, self.largest))

    def sample(self, size: int, correction: float, random: np.random.Generator) -> Batch:
        """Draw in proportion to the priorities, one from each of `size` equal parts of their sum (Schaul2016)."""
        marks = np.arange(1, size + 1) - random.random(size)
        indices = self.tree.find(marks * (self.tree.total / size))
        weights = self.tree.priorities[indices] ** -correction  # (N P(i))^-β up to a factor, which the maximum takes
        slots, copies = np.divmod(indices, self.count)
        returns, discounts = self._n_step(slots, copies)
        both = self.frames.read(np.append(slots, (slots + self.settings.n_step) % self.length), np.tile(copies, 2))
        frames = torch.from_numpy(both)
        return Batch(
            indices,
            frames[:size],
            torch.from_numpy(self.actions[slots, copies]),
            torch.from_numpy(returns),
            torch.from_numpy(discounts),
            frames[size:],
            torch.from_numpy((weights / weights.max()).astype(np.float32)),
        )

    def prioritise(self, indices: NDArray[np.int64], errors: NDArray[np.float64]) -> None:
        """Set the priorities of drawn transitions to their errors, raised to the settings' power."""
        priorities = (errors + _LEAST) ** self.settings.priority_exponent
        self.largest = max(self.largest, float(priorities.max()))
        self.tree.set(indices, priorities)

    def copy_for_another(self) -> Replay:
        """A copy for another agent, whose first step does not follow upon the last one here."""
        kept = copy.deepcopy(self)
        kept.unbroken = 0
        return kept

    def _n_step(
        self, slots: NDArray[np.int64], copies: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        returns = np.zeros(len(slots), dtype=np.float32)
        discounts = np.ones(len(slots), dtype=np.float32)
        for k in range(self.settings.n_step):
            at = (slots + k) % self.length
            returns += discounts * self.rewards[at, copies]
            discounts *= np.float32(self.settings.discount) * ~self.ended[at, copies]
        return returns, discounts

    def _places(self, slot: int) -> NDArray[np.int64]:
        return np.arange(slot * self.count, (slot + 1) * self.count)

    def state(self) -> State:
        """Everything: MinAtar's 100,000 transitions take some 7 to 14 MB, Atari's million 7 GB."""
        tensors = {name: torch.from_numpy(array[: len(self) // self.count]) for name, array in self._arrays().items()}
        priorities = torch.from_numpy(self.tree.priorities[: len(self)])
        values = {"largest": self.largest, "steps": self.steps, "unbroken": self.unbroken}
        return {**tensors, "priorities": priorities}, values

    def restore(self, state: State) -> None:
        """Hold again what it held when `state` was taken."""
        tensors, values = state
        for name, array in self._arrays().items():
            array[: len(tensors[name])] = tensors[name].numpy()
        priorities = np.zeros(self.tree.size)
        priorities[: len(tensors["priorities"])] = tensors["priorities"].numpy()
        self.tree.set(np.arange(self.tree.size), priorities)
        self.largest, self.steps, self.unbroken = values["largest"], values["steps"], values["unbroken"]

    def _arrays(self) -> dict[str, NDArray[np.generic]]:
        return {
            "content": self.frames.content,
            "before": self.frames.before,
            "actions": self.actions,
            "rewards": self.rewards,
            "ended": self.ended,
        }
