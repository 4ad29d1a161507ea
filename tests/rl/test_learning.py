"""The loop of the agents, driven by one that learns nothing but to count."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from modelkeep import Estimate, Result
from modelkeep.core import plots
from modelkeep.core.errors import CheckpointError, InputError
from modelkeep.rl import learning
from modelkeep.rl.agent import Player
from modelkeep.rl.environments.vector import State, StepResult
from modelkeep.rl.learning import AgentEvaluation, Learned, learn


class Paid:
    """A game of one step: the action is the reward, so many times."""

    count, actions = 2, 1_000
    observation_shape: tuple[int, ...] = (1,)
    action_names: tuple[str, ...] = tuple(map(str, range(1_000)))

    def __init__(self, name: str = "paid", times: int = 1) -> None:
        self.name, self.times = name, times

    def reset(self, seed: int) -> NDArray[np.uint8]:
        return np.zeros((2, 1), np.uint8)

    def step(self, actions: NDArray[np.int64]) -> StepResult:
        rewards = self.times * actions.astype(np.float32)
        return StepResult(np.zeros((2, 1), np.uint8), rewards, np.ones(2, np.bool_), tuple(map(float, rewards)))

    def state(self) -> State:
        return {}, {}

    def restore(self, state: State) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Settings:
    pace: int = 3


class Counting:
    """Each time it advances, it asks for one more than before."""

    def __init__(self, stop: int | None = None) -> None:
        self.network, self.settings, self.level, self.stop = nn.Linear(1, 1), Settings(), 0, stop
        nn.init.zeros_(self.network.weight)
        nn.init.zeros_(self.network.bias)

    def advance(self) -> int:
        if self.level == self.stop:
            raise KeyboardInterrupt
        self.level += 1
        return self.settings.pace

    def player(self, seed: int) -> Player:
        return lambda observations, begun: np.full(len(observations), self.level)

    def state(self) -> State:
        return {"level": torch.tensor(self.level)}, {"twice": 2 * self.level}

    def restore(self, state: State) -> None:
        self.level = int(state[0]["level"])
        assert state[1]["twice"] == 2 * self.level

    def metrics(self) -> dict[str, float]:
        return {}


def run(agent: Counting, checkpoint: Path | None = None, steps: int = 20) -> Learned:
    return learn(agent, Paid(), steps=steps, evaluate_every=6, episodes=2, seed=0, checkpoint=checkpoint)


def test_an_agent_is_judged_before_it_learns_and_on_the_grid() -> None:
    learned = run(Counting())
    assert [(judged.step, judged.mean_return.value) for judged in learned.evaluations] == [
        (0, 0.0),
        (6, 2.0),
        (12, 4.0),
        (18, 6.0),
    ]


def test_each_level_is_judged_by_itself() -> None:
    levels = [Paid("once", 1), Paid("thrice", 3)]
    learned = learn(Counting(), levels, steps=6, evaluate_every=6, episodes=2, seed=0)
    assert {name: found.value for name, found in learned.last.levels.items()} == {"once": 2.0, "thrice": 6.0}
    assert learned.last.mean_return.value == 4.0
    assert learned.environment == "once+thrice"
    assert ("at the end, thrice", str(learned.last.levels["thrice"])) in learned.rows()
    assert [text.get_text() for text in learned.draw().legends[0].get_texts()] == ["once", "thrice"]


@pytest.mark.parametrize("levels", [[], [Paid("once"), Paid("once", 3)]], ids=["none", "one twice"])
def test_levels_that_cannot_be_told_apart_are_refused(levels: list[Paid]) -> None:
    with pytest.raises(InputError, match="several that differ"):
        learn(Counting(), levels, steps=6, evaluate_every=6, episodes=2, seed=0)


def test_the_errors_of_levels_add_up_as_independent_ones_do() -> None:
    """Against the quantiles of the mean of two normal numbers with the deviations 3 and 4: that of 5 / 2."""
    of = {name: Estimate(0.0, -1.96 * sd, 1.96 * sd, 10) for name, sd in (("a", 3.0), ("b", 4.0))}
    joint = AgentEvaluation(0, of, 0.0).mean_return
    drawn = np.random.default_rng(0).normal(0, [3.0, 4.0], (200_000, 2)).mean(axis=1)
    assert (joint.low, joint.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=0.05)
    assert joint.n == 20


def test_a_run_that_was_killed_goes_on_to_the_same_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "CHECKPOINT_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        run(Counting(stop=4), tmp_path / "kept")
    resumed = Counting()
    assert run(resumed, tmp_path / "kept").evaluations == run(Counting()).evaluations
    assert resumed.level == 7
    assert run(Counting(stop=0), tmp_path / "kept").evaluations == run(Counting()).evaluations, "it had ended"


def test_the_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    run(Counting(), tmp_path / "kept")
    with pytest.raises(CheckpointError, match="steps was 20 and is now 30"):
        run(Counting(), tmp_path / "kept", steps=30)
    other = Counting()
    other.level = 1  # as an agent with another seed would differ
    with pytest.raises(CheckpointError, match="begins was"):
        run(other, tmp_path / "kept")
    (tmp_path / "kept").write_bytes((tmp_path / "kept").read_bytes()[:-3])
    with pytest.raises(CheckpointError, match="Delete it to learn from the start"):
        run(Counting(), tmp_path / "kept")


def test_a_result_prints_draws_and_comes_back() -> None:
    learned = run(Counting())
    assert "Counting on paid" in str(learned)
    assert Result.from_json(learned.to_json()).to_json() == learned.to_json()
    assert np.asarray(Image.open(io.BytesIO(plots.png_bytes(learned.draw())))).std() > 1


@pytest.mark.parametrize("name", ["steps", "evaluate_every", "episodes"])
def test_nothing_to_do_is_refused(name: str) -> None:
    def given(wanted: str) -> int:
        return 0 if wanted == name else 5

    with pytest.raises(InputError, match=name):
        learn(
            Counting(),
            Paid(),
            steps=given("steps"),
            evaluate_every=given("evaluate_every"),
            episodes=given("episodes"),
            seed=0,
        )
