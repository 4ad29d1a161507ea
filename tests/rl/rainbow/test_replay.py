"""The replay against a plain list of everything that happened."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from modelkeep.core.errors import InputError
from modelkeep.rl.environments.catalogue import make
from modelkeep.rl.rainbow import ATARI, MINATAR, RainbowSettings, Replay
from modelkeep.rl.rainbow.frames import Keeping

COUNT, CAPACITY = 3, 120
SHAPES: dict[Keeping, tuple[int, ...]] = {"bits": (2, 3, 3), "whole": (2, 3, 3), "newest frame": (4, 3, 3)}


def settings(keeping: Keeping = "bits") -> RainbowSettings:
    return replace(MINATAR, capacity=CAPACITY, learning_starts=10, keeping=keeping)


class Told:
    """Random steps of all copies, as a replay is told them."""

    def __init__(self, keeping: Keeping, steps: int, seed: int = 0) -> None:
        random, shape = np.random.default_rng(seed), SHAPES[keeping]
        self.ended = random.random((steps, COUNT)) < 0.15
        self.actions = random.integers(0, 5, (steps, COUNT))
        self.rewards = random.normal(size=(steps, COUNT)).astype(np.float32)
        high = 2 if keeping == "bits" else 256
        self.observations: NDArray[np.uint8] = random.integers(0, high, (steps, COUNT, *shape)).astype(np.uint8)
        if keeping == "newest frame":  # the older frames are those of the observation before, or the first one again
            for t in range(steps):
                for i in range(COUNT):
                    begun = t == 0 or self.ended[t - 1, i]
                    self.observations[t, i, :-1] = (
                        self.observations[t, i, -1] if begun else self.observations[t - 1, i, 1:]
                    )

    def to(self, replay: Replay) -> Replay:
        for step in zip(self.observations, self.actions, self.rewards, self.ended, strict=True):
            replay.add(*step)
        return replay


def by_hand(told: Told, t: int, i: int, discount: float, n: int) -> tuple[float, float]:
    """The n-step return from step t of copy i, and the discount of what follows."""
    total, factor = 0.0, 1.0
    for k in range(n):
        total += factor * told.rewards[t + k, i]
        factor *= discount
        if told.ended[t + k, i]:
            return total, 0.0
    return total, factor


@pytest.mark.parametrize("keeping", ["bits", "whole", "newest frame"])
@pytest.mark.parametrize("steps", [20, 40, 41, 97])
def test_draws_what_happened_with_its_n_step_return(keeping: Keeping, steps: int) -> None:
    told = Told(keeping, steps)
    replay = told.to(Replay(settings(keeping), COUNT, SHAPES[keeping]))
    batch = replay.sample(400, 0.5, np.random.default_rng(1))
    seen = set()
    for row, index in enumerate(batch.indices):
        slot, i = divmod(int(index), COUNT)
        t = max(t for t in range(steps) if t % (CAPACITY // COUNT) == slot)  # the latest step in that slot
        seen.add((t, i))
        total, factor = by_hand(told, t, i, 0.99, 3)
        assert np.array_equal(batch.observations[row].numpy(), told.observations[t, i])
        assert batch.actions[row] == told.actions[t, i]
        assert float(batch.returns[row]) == pytest.approx(total, abs=1e-5)
        assert float(batch.discounts[row]) == pytest.approx(factor, abs=1e-6)
        assert np.array_equal(batch.next_observations[row].numpy(), told.observations[t + 3, i])
    # All that are complete have been drawn: not the last 3, nor, of stacks, those whose oldest frames are overwritten.
    oldest = max(0, steps - CAPACITY // COUNT + (3 if keeping == "newest frame" else 0))
    assert seen == {(t, i) for t in range(oldest, steps - 3) for i in range(COUNT)}


def test_ataris_stacks_come_back_from_single_frames() -> None:
    games, random = make("atari/Breakout", 2), np.random.default_rng(0)
    replay = Replay(replace(ATARI, capacity=600, learning_starts=1), 2, games.observation_shape)
    seen = [games.reset(0)]
    while not replay.ended[: len(seen) - 10].any():  # until a new episode is well under way
        actions = random.integers(0, games.actions, 2)
        stepped = games.step(actions)
        replay.add(seen[-1], actions, stepped.rewards, stepped.ended)
        seen.append(stepped.observations)
    drawn = replay.sample(500, 0.5, random)
    for row, index in enumerate(drawn.indices):
        slot, i = divmod(int(index), 2)
        assert np.array_equal(drawn.observations[row].numpy(), seen[slot][i])
        assert np.array_equal(drawn.next_observations[row].numpy(), seen[slot + 3][i])


def test_weights_undo_the_priorities() -> None:
    replay = Told("bits", 30).to(Replay(settings(), COUNT, SHAPES["bits"]))
    indices = np.arange(60)
    errors = np.linspace(0.1, 5, 60)
    replay.prioritise(indices, errors)
    assert replay.tree.priorities[:60] == pytest.approx(np.sqrt(errors), rel=1e-4)
    batch = replay.sample(200, 0.7, np.random.default_rng(0))
    share = replay.tree.priorities[batch.indices] / replay.tree.priorities.sum()
    weights = (27 * COUNT * share) ** -0.7  # Schaul et al., section 3.4
    assert batch.weights.numpy() == pytest.approx(weights / weights.max(), rel=1e-5)


def test_new_transitions_get_the_largest_priority_so_far() -> None:
    replay = Told("bits", 10).to(Replay(settings(), COUNT, SHAPES["bits"]))
    replay.prioritise(np.array([0, 1]), np.array([0.3, 16.0]))
    later = Told("bits", 1, seed=1)
    later.to(replay)
    assert replay.tree.priorities[7 * COUNT : 8 * COUNT] == pytest.approx([4.0] * COUNT)


@pytest.mark.parametrize("keeping", ["bits", "newest frame"])
def test_a_kept_replay_joins_no_step_with_those_of_its_next_agent(keeping: Keeping) -> None:
    told, later = Told(keeping, 35), Told(keeping, 30, seed=1)
    original = told.to(Replay(settings(keeping), COUNT, SHAPES[keeping]))
    before = original.tree.priorities.copy()
    kept = original.copy_for_another()
    assert np.array_equal(kept.tree.priorities, before)
    later.to(kept)
    assert np.array_equal(original.tree.priorities, before)  # it is a copy
    drawn = kept.sample(400, 0.5, np.random.default_rng(0))
    for row, index in enumerate(drawn.indices):
        slot, i = divmod(int(index), COUNT)
        t = max(t for t in range(65) if t % (CAPACITY // COUNT) == slot)
        source, at = (told, t) if t < 35 else (later, t - 35)
        assert at + 3 < len(source.rewards)
        assert float(drawn.returns[row]) == pytest.approx(by_hand(source, at, i, 0.99, 3)[0], abs=1e-5)
        assert np.array_equal(drawn.observations[row].numpy(), source.observations[at, i])
        assert np.array_equal(drawn.next_observations[row].numpy(), source.observations[at + 3, i])


def test_a_full_replay_of_minatar_is_some_megabytes() -> None:
    replay = Replay(replace(MINATAR), 8, (10, 10, 10))  # Seaquest has the most channels
    replay.steps = 100_000 // 8
    assert len(replay) == 100_000
    assert sum(tensor.nbytes for tensor in replay.state()[0].values()) < 16e6


def test_says_what_cannot_be_kept() -> None:
    bits, stacks = (Replay(settings(keeping), COUNT, SHAPES[keeping]) for keeping in ("bits", "newest frame"))
    with pytest.raises(InputError, match="only zeros and ones are kept as bits"):
        Told("whole", 1).to(bits)
    told = Told("newest frame", 2)
    told.observations[1, 0, 1] += 1
    with pytest.raises(InputError, match="no stack of frames"):
        told.to(stacks)
    with pytest.raises(InputError, match="too small for 40 copies"):
        Replay(settings(), 40, (2, 3, 3))


def test_a_stored_state_is_the_whole_replay() -> None:
    replay = Told("newest frame", 60).to(Replay(settings("newest frame"), COUNT, SHAPES["newest frame"]))
    other = Replay(settings("newest frame"), COUNT, SHAPES["newest frame"])
    other.restore(replay.state())
    for each in (replay, other):
        Told("newest frame", 1, seed=1).to(each)
    one, two = (each.sample(100, 0.5, np.random.default_rng(0)) for each in (replay, other))
    assert torch.equal(one.observations, two.observations)
    assert torch.equal(one.weights, two.weights)
