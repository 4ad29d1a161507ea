"""IMPALA: exact resumption, what lag means, frozen parts, several levels, and that it learns."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from modelkeep.core.errors import InputError, TrainingError
from modelkeep.rl.agent import Agent
from modelkeep.rl.environments.catalogue import make
from modelkeep.rl.environments.vector import State, StepResult
from modelkeep.rl.impala.agent import Impala
from modelkeep.rl.impala.network import ImpalaNetwork
from modelkeep.rl.impala.settings import LAB, ImpalaSettings
from modelkeep.training.part import tensors_of

SMALL = ImpalaSettings(unroll=8)


def network(seed: int = 0, actions: int = 3, channels: int = 4) -> ImpalaNetwork:
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(seed)
        return ImpalaNetwork((channels, 10, 10), actions, channels=(4,), blocks=1, linear=16, lstm=16, scale=1.0)


def agent(settings: ImpalaSettings = SMALL, seed: int = 0, levels: int = 1) -> Impala:
    return Impala([make("minatar/breakout", 3) for _ in range(levels)], network(), settings, seed)


def equal(first: State, second: State) -> bool:
    same = first[0].keys() == second[0].keys() and json.dumps(first[1]) == json.dumps(second[1])
    return same and all(torch.equal(tensor, second[0][name]) for name, tensor in first[0].items())


@pytest.mark.parametrize("lag", [0, 2])
def test_a_resumed_run_ends_with_the_same_bits(lag: int) -> None:
    settings = replace(SMALL, lag=lag)
    whole, half, resumed = agent(settings, levels=2), agent(settings, levels=2), agent(settings, levels=2)
    for _ in range(10):
        assert whole.advance() == 48
    for _ in range(5):
        half.advance()
    tensors, values = half.state()
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    resumed.restore((tensors, json.loads(json.dumps(values))))
    half.advance()
    for _ in range(5):
        resumed.advance()
    assert equal(resumed.state(), whole.state())
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in kept.items())  # nobody wrote into the state
    assert not equal(agent(settings, seed=1, levels=2).state(), agent(settings, levels=2).state())


def test_the_learning_rate_falls_to_nothing_also_after_a_pause() -> None:
    settings = replace(SMALL, lag=0, total=5 * 24)  # five advances of three copies
    falling = agent(settings)
    rates = []
    for number in range(7):
        if number == 3:
            state, falling = falling.state(), agent(settings)
            falling.restore((state[0], json.loads(json.dumps(state[1]))))
        before = tensors_of(falling.network)["linear.weight"].clone()
        falling.advance()
        rates.append(falling.optimizer.param_groups[0]["lr"] / settings.learning_rate)
        moved = not torch.equal(before, tensors_of(falling.network)["linear.weight"])
        assert moved == (number < 5)
    assert rates == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.0, 0.0])


def test_lag_is_how_many_updates_old_the_acting_weights_are() -> None:
    late = agent(replace(SMALL, lag=2))
    weights = []  # before each advance
    ratios = []
    for _ in range(6):
        weights.append({name: tensor.clone() for name, tensor in late.network.state_dict().items()})
        late.advance()
    unroll = late.queue[0]  # played in the fifth advance; the learner has got no further than the fourth
    other = network()
    for i in (3, 4, 5):
        other.load_state_dict(weights[i])
        with torch.no_grad():
            logits, _, _ = other(unroll.observations, unroll.begun, (unroll.output, unroll.cell))
        log_pi = logits[:-1].log_softmax(2).gather(2, unroll.actions[..., None]).squeeze(2)
        ratios.append(float((log_pi - unroll.log_mu).abs().max()))
    assert ratios[1] < 1e-5
    assert min(ratios[0], ratios[2]) > 1e-4
    assert len(late.queue) == 2


def test_the_learner_thinks_over_exactly_what_the_actors_did() -> None:
    """Without lag π = μ, also after ends of episodes and with memory carried over from the unroll before."""
    on_policy = agent(replace(SMALL, lag=0, unroll=40))
    for _ in range(3):
        unroll = on_policy.actors.unroll(on_policy.network, 40)
        assert unroll.begun[1:].any()
        logits, _, _ = on_policy.network(unroll.observations, unroll.begun, (unroll.output, unroll.cell))
        log_pi = logits[:-1].log_softmax(2).gather(2, unroll.actions[..., None]).squeeze(2)
        torch.testing.assert_close(log_pi, unroll.log_mu)
    assert unroll.output.abs().max() > 0


def test_only_what_requires_a_gradient_is_trained() -> None:
    frozen = network()
    for name, parameter in frozen.named_parameters():
        parameter.requires_grad_(name.startswith("section1.conv1."))
    before = {name: tensor.clone() for name, tensor in frozen.state_dict().items()}
    learner = Impala([make("minatar/breakout", 3)], frozen, SMALL, seed=0)
    for _ in range(4):
        learner.advance()
    changed = {name for name, tensor in frozen.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {"section1.conv1.weight", "section1.conv1.bias"}
    with pytest.raises(InputError, match="nothing to train"):
        Impala([make("minatar/breakout", 3)], frozen.requires_grad_(False), SMALL, seed=0)


def test_the_player_is_the_policy_as_it_was_and_leaves_the_training_alone() -> None:
    first, second = agent(), agent()
    games = make("minatar/breakout", 5)
    play = first.player(7)
    first.advance()
    second.advance()
    for _ in range(2):
        first.advance()
        second.advance()
        again = second.player(7)  # other weights by now
    observations, begun = games.reset(0), np.ones(5, bool)
    assert again(observations, begun).shape == (5,)
    fresh = agent().player(7)
    for _ in range(20):
        actions = play(observations, begun)
        assert np.array_equal(actions, fresh(observations, begun))
        stepped = games.step(actions)
        observations, begun = stepped.observations, stepped.ended
    assert equal(first.state(), second.state())


def test_levels_must_be_alike() -> None:
    with pytest.raises(InputError, match=r"minatar/breakout: \(4, 10, 10\), 3, minatar/freeway: \(7, 10, 10\), 3"):
        Impala([make("minatar/breakout", 2), make("minatar/freeway", 2)], network(), SMALL, seed=0)
    with pytest.raises(InputError, match="at least one level"):
        Impala([], network(), SMALL, seed=0)


def test_a_loss_that_is_no_number_is_an_error() -> None:
    broken = agent(replace(SMALL, lag=0))
    with torch.no_grad():
        broken.network.value.bias.fill_(float("nan"))
    with pytest.raises(TrainingError, match="smaller learning rate"):
        broken.advance()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 0.0),
        ("epsilon", float("nan")),
        ("entropy_cost", -1.0),
        ("discount", 1.1),
        ("unroll", 0),
        ("lag", -1),
        ("gradient_norm", 0.0),
        ("reward", "none"),
    ],
)
def test_settings_out_of_range(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"'{name}' parameter of ImpalaSettings"):
        replace(SMALL, **{name: value})  # type: ignore[arg-type]


def test_a_population_changes_only_what_evolves() -> None:
    assert SMALL.with_values({"epsilon": 0.5}) == replace(SMALL, epsilon=0.5)
    with pytest.raises(InputError, match="of entropy_cost, learning_rate, epsilon"):
        SMALL.with_values({"unroll": 3})


def test_rewards_are_shaped() -> None:
    rewards = torch.tensor([-3.0, 0.0, 0.5])
    assert ImpalaSettings(reward="raw").shape_rewards(rewards).tolist() == [-3, 0, 0.5]
    assert ImpalaSettings().shape_rewards(rewards).tolist() == [-1, 0, 0.5]
    assert LAB.shape_rewards(rewards).tolist() == pytest.approx([0.3 * np.tanh(-3), 0, 5 * np.tanh(0.5)])


class Recall:
    """Episodes of three steps: a picture shows which action will be right in the last one, where nothing is shown."""

    name, count, actions = "recall", 16, 2
    observation_shape: tuple[int, ...] = (1, 4, 4)
    action_names: tuple[str, ...] = ("nothing", "other")

    def reset(self, seed: int) -> NDArray[np.uint8]:
        self.random = np.random.default_rng(seed)
        self.time = 0
        self.right = self.random.integers(2, size=self.count)
        return self._shown()

    def _shown(self) -> NDArray[np.uint8]:
        shown = np.zeros((self.count, 1, 4, 4), np.uint8)
        if self.time == 0:
            shown[np.arange(self.count), 0, self.right] = 1
        return shown

    def step(self, actions: NDArray[np.int64]) -> StepResult:
        self.time += 1
        rewards = np.zeros(self.count, np.float32)
        if self.time < 3:
            return StepResult(self._shown(), rewards, np.zeros(self.count, bool), ())
        rewards[:] = actions == self.right
        self.time, self.right = 0, self.random.integers(2, size=self.count)
        return StepResult(self._shown(), rewards, np.ones(self.count, bool), tuple(rewards.tolist()))

    def state(self) -> State:
        return {}, {}

    def restore(self, state: State) -> None:
        pass

    def close(self) -> None:
        pass


def test_it_learns_what_only_memory_can_tell() -> None:
    """Without memory no policy gets more than ½ on average; and the actors are two updates behind."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(0)
        remembering = ImpalaNetwork((1, 4, 4), 2, channels=(4,), blocks=1, linear=16, lstm=16, scale=1.0)
    settings = ImpalaSettings(unroll=9, lag=2, learning_rate=3e-3)
    learner = Impala([Recall()], remembering, settings, seed=0)
    as_agent: Agent = learner
    for _ in range(70):
        as_agent.advance()
    assert as_agent.metrics()["score"] > 0.9
