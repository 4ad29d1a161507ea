"""A2C: its update against one written out by hand, exact resuming, frozen parts, and that it learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from modelkeep.core.errors import InputError, TrainingError
from modelkeep.rl.a2c import A2C, ATARI, MINATAR, A2CSettings, sample_actions
from modelkeep.rl.environments.catalogue import make
from modelkeep.rl.environments.vector import State, StepResult
from modelkeep.rl.networks import ActorCritic, Convolution, Torso, minatar_actor_critic


class Signs:
    """A game of one step: the observation is all 0 or all 1, and the reward 1 for the action that names it."""

    name, count, actions = "signs", 8, 2
    observation_shape: tuple[int, ...] = (1, 3, 3)
    action_names: tuple[str, ...] = ("minus", "plus")

    def reset(self, seed: int) -> NDArray[np.uint8]:
        self.draw = np.random.default_rng(seed)
        return self.next()

    def next(self) -> NDArray[np.uint8]:
        self.sign = self.draw.integers(0, 2, self.count)
        return np.broadcast_to(self.sign[:, None, None, None], (self.count, 1, 3, 3)).astype(np.uint8)

    def step(self, actions: NDArray[np.int64]) -> StepResult:
        rewards = (actions == self.sign).astype(np.float32)
        return StepResult(self.next(), rewards, np.ones(self.count, dtype=bool), tuple(map(float, rewards)))

    def state(self) -> State:
        return {"sign": torch.from_numpy(self.sign)}, {"draw": self.draw.bit_generator.state}

    def restore(self, state: State) -> None:
        self.sign, self.draw.bit_generator.state = state[0]["sign"].numpy(), state[1]["draw"]

    def close(self) -> None: ...


def little(seed: int = 0) -> ActorCritic:
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)
        return ActorCritic(Torso((Convolution(2, 2),), 1.0, True), (1, 3, 3), 8, 2)


def breakout(seed: int = 0) -> A2C:
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)
        network = minatar_actor_critic(channels=4, actions=3)
    return A2C(make("minatar/breakout", 4), network, MINATAR, seed)


def weights(agent: A2C) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in agent.network.state_dict().items()}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_it_learns_which_action_pays() -> None:
    agent = A2C(Signs(), little(), A2CSettings(total=8_000, learning_rate=0.01, epsilon=1e-4), seed=0)
    while agent.taken < 6_000:
        agent.advance()
    agent.metrics()
    while agent.taken < 8_000:
        agent.advance()
    assert agent.metrics()["returns"] > 0.95
    zeros, ones = np.zeros((50, 1, 3, 3), np.uint8), np.ones((50, 1, 3, 3), np.uint8)
    play = agent.player(seed=1)
    assert play(zeros, np.ones(50, bool)).mean() < 0.1
    assert play(ones, np.ones(50, bool)).mean() > 0.9


def test_an_update_is_the_one_of_the_equations() -> None:
    """Each of the loss's terms added up one by one, in double precision, and RMSProp's formula by hand."""
    settings = A2CSettings(total=1_000, steps=1, entropy=0.3, value=0.7, clip=0.9, epsilon=0.1)
    agent = A2C(Signs(), little(), settings, seed=0)
    agent.taken = 250  # three quarters of the learning rate are left
    draw = np.random.default_rng(0)
    observations = draw.integers(0, 2, (6, 1, 3, 3)).astype(np.uint8)
    actions, returns = draw.integers(0, 2, 6), draw.normal(size=6).astype(np.float32)
    slow = little().double()
    loss = torch.zeros((), dtype=torch.float64)
    for observation, action, got in zip(observations, actions, returns, strict=True):
        hidden = slow.conv1(torch.from_numpy(observation).double()[None]).relu().flatten(1)  # type: ignore[operator]
        hidden = slow.linear(hidden).relu()
        policy, value = slow.policy(hidden)[0].softmax(0), slow.value(hidden)[0, 0]
        advantage = float(got) - value
        loss = loss - policy[action].log() * advantage.detach() + 0.7 * advantage**2
        loss = loss + 0.3 * sum(p * p.log() for p in policy)
    gradients = torch.autograd.grad(loss, list(slow.parameters()))
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    assert norm > 0.9  # so that clipping is tried
    agent.learn(observations, actions, returns)
    for before, gradient, after in zip(slow.parameters(), gradients, agent.network.parameters(), strict=True):
        step = gradient * 0.9 / norm
        expected = before - 0.75 * 6e-4 * step / (0.01 * step**2 + 0.1).sqrt()
        torch.testing.assert_close(after.double(), expected, rtol=1e-5, atol=1e-7)


def test_a_resumed_run_has_the_same_bits() -> None:
    whole = breakout()
    for _ in range(100):
        whole.advance()
    first = breakout()
    for _ in range(50):
        first.advance()
    tensors, values = first.state()
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    first.advance()  # what comes later does not change a state that was taken
    assert same(tensors, kept)
    second = breakout(seed=1)
    second.advance()
    second.restore((tensors, values))
    for _ in range(50):
        second.advance()
    assert second.taken == whole.taken == 100 * 20
    one, other = whole.state(), second.state()
    assert same(one[0], other[0])
    assert one[1] == other[1]


def test_another_seed_gives_another_run() -> None:
    one, other = (A2C(Signs(), little(), MINATAR, seed) for seed in (0, 1))
    one.advance(), other.advance()
    assert not same(weights(one), weights(other))


def test_frozen_parts_stay_as_they_are() -> None:
    network = little()
    for child in (network.conv1, network.policy):
        child.requires_grad_(False)
    agent = A2C(Signs(), network, MINATAR, seed=0)
    before = weights(agent)
    for _ in range(5):
        agent.advance()
    changed = {name for name, tensor in weights(agent).items() if not torch.equal(tensor, before[name])}
    assert changed == {"linear.weight", "linear.bias", "value.weight", "value.bias"}


def test_playing_changes_nothing_of_the_training() -> None:
    agent, other = breakout(), breakout()
    play = agent.player(seed=3)
    play(agent.observations, np.zeros(4, bool))
    agent.advance(), other.advance()
    assert same(agent.state()[0], other.state()[0])


def test_a_player_keeps_the_read_policy_its_time() -> None:
    agent = breakout()
    observations, begun = np.repeat(agent.observations, 50, axis=0), np.zeros(200, bool)
    early, late = agent.player(seed=0), agent.player(seed=0)
    expected = early(observations, begun)
    for _ in range(20):
        agent.advance()
    assert (late(observations, begun) == expected).all()


def test_actions_are_drawn_with_the_policys_probabilities() -> None:
    network = little()
    observation = torch.ones(1, 1, 3, 3, dtype=torch.uint8)
    chance = float(network(observation)[0].softmax(1)[0, 1].detach())
    actions = sample_actions(network, observation.numpy().repeat(20_000, axis=0), torch.Generator().manual_seed(0))
    deviation = (chance * (1 - chance) / 20_000) ** 0.5
    assert abs(actions.mean() - chance) < 4 * deviation


def test_nothing_is_drawn_from_the_global_generator() -> None:
    agent = breakout()
    before = torch.get_rng_state()
    agent.advance()
    agent.player(0)(agent.observations, np.zeros(4, bool))
    assert torch.equal(before, torch.get_rng_state())


def test_rewards_are_clipped_where_asked() -> None:
    class Rich(Signs):
        def step(self, actions: NDArray[np.int64]) -> StepResult:
            stepped = super().step(actions)
            return StepResult(stepped.observations, 100 * stepped.rewards, stepped.ended, stepped.returns)

    rich, poor = (A2C(game, little(), ATARI, seed=0) for game in (Rich(), Signs()))
    rich.advance(), poor.advance()
    assert same(weights(rich), weights(poor))


def test_nothing_moves_after_the_last_step() -> None:
    agent = A2C(Signs(), little(), A2CSettings(total=80), seed=0)
    agent.advance(), agent.advance()
    before = weights(agent)
    agent.advance()
    assert same(before, weights(agent))


def test_a_network_with_nothing_to_train_is_refused() -> None:
    with pytest.raises(InputError, match="nothing to learn"):
        A2C(Signs(), little().requires_grad_(False), MINATAR, seed=0)


def test_a_network_for_another_number_of_actions_is_refused() -> None:
    with pytest.raises(InputError, match=r"logits \(4, 3\)"):
        A2C(make("minatar/breakout", 4), minatar_actor_critic(channels=4, actions=6), MINATAR, seed=0)


def test_a_gradient_that_is_not_finite_does_not_reach_the_weights() -> None:
    network = little()
    with torch.no_grad():
        network.value.bias.fill_(torch.inf)
    agent = A2C(Signs(), network, MINATAR, seed=0)
    before = weights(agent)
    with pytest.raises(TrainingError, match="no longer finite"):
        agent.advance()
    assert same(before, weights(agent))


@pytest.mark.parametrize(
    "wrong", [{"total": 0}, {"steps": 0}, {"discount": 1.5}, {"epsilon": 0.0}], ids=["total", "steps", "γ", "ε"]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        A2CSettings(**wrong)
