"""Rainbow as a whole: its target by hand, exact resumption, freezing, a kept replay, and that it learns."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from modelkeep.core.errors import InputError
from modelkeep.rl.environments.catalogue import make
from modelkeep.rl.environments.vector import State, StepResult
from modelkeep.rl.networks import MINATAR as TORSO
from modelkeep.rl.rainbow import MINATAR, Rainbow, RainbowNetwork, RainbowSettings, Replay, minatar_rainbow

QUICK = replace(MINATAR, batch_size=32, steps_per_update=4, capacity=400, learning_starts=40, target_every=40)


class Sides:
    """A mark is at the left or at the right for 5 steps; the action that names its side is rewarded."""

    name, count, actions = "sides", 8, 2
    observation_shape: tuple[int, ...] = (1, 5, 5)
    action_names: tuple[str, ...] = ("left", "right")

    def reset(self, seed: int) -> NDArray[np.uint8]:
        self.random, self.time = np.random.default_rng(seed), 0
        return self.seen()

    def seen(self) -> NDArray[np.uint8]:
        self.sides = self.random.integers(0, 2, self.count)
        observations = np.zeros((self.count, 1, 5, 5), np.uint8)
        observations[np.arange(self.count), 0, :, self.sides * 4] = 1
        return observations

    def step(self, actions: NDArray[np.int64]) -> StepResult:
        rewards = (actions == self.sides).astype(np.float32)
        self.time += 1
        return StepResult(self.seen(), rewards, np.full(self.count, self.time % 5 == 0), ())

    def state(self) -> State:
        return {}, {}

    def restore(self, state: State) -> None: ...

    def close(self) -> None: ...


def breakout(seed: int = 0, settings: RainbowSettings = QUICK, replay: Replay | None = None) -> Rainbow:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = minatar_rainbow(channels=4, actions=3)
    return Rainbow(make("minatar/breakout", 4), network, settings, seed, replay=replay)


def same(one: State, two: State) -> bool:
    return (
        one[1] == two[1] and one[0].keys() == two[0].keys() and all(torch.equal(one[0][n], two[0][n]) for n in one[0])
    )


def test_resumed_is_uninterrupted_bit_for_bit() -> None:
    through, first, second = breakout(), breakout(), breakout()
    for _ in range(40):
        through.advance()
    for _ in range(20):
        first.advance()
    tensors, values = first.state()
    values = json.loads(json.dumps(values))
    first.advance()  # what was stored does not change with the agent
    second.restore((tensors, values))
    for _ in range(20):
        second.advance()
    assert same(through.state(), second.state())
    assert not same(through.state(), breakout(seed=1).state())


def test_the_target_is_double_q_learnings() -> None:
    agent = breakout()
    for _ in range(20):
        agent.advance()
    for parameter in agent.target.parameters():  # as after many updates: the two networks prefer other actions
        parameter.data.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel())))
    batch = agent.replay.sample(16, 1.0, np.random.default_rng(0))
    noise = agent.noise.get_state()
    wanted = agent.target_distributions(batch)
    agent.noise.set_state(noise)
    with torch.no_grad():
        online = agent.network(batch.next_observations, agent.noise).softmax(2)
        target = agent.target(batch.next_observations, agent.noise).softmax(2)
    differ = 0
    for i in range(16):
        values = [sum(float(p) * float(z) for p, z in zip(online[i, a], agent.support, strict=True)) for a in range(3)]
        best = int(np.argmax(values))
        differ += best != int((target[i] @ agent.support).argmax())
        mean = float(batch.returns[i]) + float(batch.discounts[i]) * float(target[i, best] @ agent.support)
        assert float(wanted[i].sum()) == pytest.approx(1, abs=1e-5)
        assert float(wanted[i] @ agent.support) == pytest.approx(mean, abs=0.05)
    assert differ > 0


def test_what_requires_no_gradient_keeps_its_bits() -> None:
    network = minatar_rainbow(channels=4, actions=3).requires_grad_(False)
    network.conv1.requires_grad_(True)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    agent = Rainbow(make("minatar/breakout", 4), network, QUICK, seed=0)
    for _ in range(30):
        agent.advance()
    changed = {name for name, tensor in network.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {"conv1.weight", "conv1.bias"}


def test_a_kept_replay_lets_it_learn_at_once() -> None:
    old = breakout()
    for _ in range(40):
        old.advance()
    priorities = old.replay.tree.priorities.copy()
    new, without = breakout(seed=1, replay=old.replay), breakout(seed=1)
    assert np.array_equal(new.replay.tree.priorities, priorities)
    assert all(torch.equal(a, b) for a, b in zip(new.network.parameters(), new.target.parameters(), strict=True))
    new.advance()
    without.advance()
    assert "loss" in new.metrics()
    assert "loss" not in without.metrics()
    assert np.array_equal(old.replay.tree.priorities, priorities)


def test_the_target_follows_every_so_many_steps() -> None:
    agent = breakout(settings=replace(QUICK, target_every=80))
    equal = []
    for _ in range(40):
        agent.advance()
        equal.append(torch.equal(agent.network.value.weight, agent.target.value.weight))
    assert [step for step, same in enumerate(equal, start=1) if same and step > 10] == [20, 40]


def test_learns_what_is_rewarded() -> None:
    torch.manual_seed(0)
    network = RainbowNetwork(TORSO, (1, 5, 5), 32, 2, atoms=21)
    settings = replace(QUICK, atoms=21, lowest=0.0, highest=5.0, learning_rate=4e-3)
    agent = Rainbow(Sides(), network, settings, seed=0)
    for _ in range(100):
        agent.advance()
    games = Sides()
    observations = games.reset(1)
    player, right = agent.player(0), []
    for _ in range(20):
        stepped = games.step(player(observations, np.zeros(8, np.bool_)))
        observations = stepped.observations
        right.append(stepped.rewards.mean())
    assert np.mean(right) > 0.95


def test_a_player_stays_as_it_was() -> None:
    agent = breakout()
    player, observations = agent.player(0), agent.observations
    before = player(observations, np.ones(4, np.bool_))
    for parameter in agent.network.parameters():
        parameter.data.neg_()
    assert np.array_equal(player(observations, np.ones(4, np.bool_)), before)


def test_says_what_does_not_fit() -> None:
    games = make("minatar/breakout", 4)
    with pytest.raises(InputError, match="for 6 actions and 51 atoms, but minatar/breakout has 3 actions"):
        Rainbow(games, minatar_rainbow(channels=4, actions=6), QUICK, seed=0)
    with pytest.raises(InputError, match="nothing to learn"):
        Rainbow(games, minatar_rainbow(channels=4, actions=3).requires_grad_(False), QUICK, seed=0)
    with pytest.raises(InputError, match="It is for 8 copies"):
        breakout(replay=Replay(QUICK, 8, (4, 10, 10)))
    with pytest.raises(InputError, match="'learning_starts' parameter of RainbowSettings must be at most"):
        RainbowSettings(capacity=10)
