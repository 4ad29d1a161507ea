"""Evaluation: so many whole episodes, and the short ones are not preferred."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from modelkeep.core.errors import InputError
from modelkeep.rl.environments.catalogue import make
from modelkeep.rl.environments.vector import State, StepResult
from modelkeep.rl.evaluation import play_episodes, random_player


class ShortAreBad:
    """An episode has one step and returns 1, or has 100 and returns 100, with the same chance: 50.5 on average."""

    name, actions = "test/short", 2
    observation_shape: tuple[int, ...] = (1,)
    action_names: tuple[str, ...] = ("nothing", "other")

    def __init__(self, count: int, *, lives: bool = False) -> None:
        self.count, self.lives = count, lives

    def reset(self, seed: int) -> NDArray[np.uint8]:
        self.random = np.random.default_rng(seed)
        self.length = self._lengths()
        self.played = np.zeros(self.count, np.int64)
        return np.zeros((self.count, 1), np.uint8)

    def _lengths(self) -> NDArray[np.int64]:
        return self.random.choice(np.array([1, 100]), self.count)

    def step(self, actions: NDArray[np.int64]) -> StepResult:
        self.played += 1
        over = self.played == self.length
        finished = tuple(self.length[over].astype(float).tolist())
        self.length = np.where(over, self._lengths(), self.length)
        self.played[over] = 0
        ended = np.ones(self.count, np.bool_) if self.lives else over
        return StepResult(np.zeros((self.count, 1), np.uint8), np.ones(self.count, np.float32), ended, finished)

    def state(self) -> State:
        return {}, {}

    def restore(self, state: State) -> None: ...

    def close(self) -> None: ...


def test_short_episodes_are_not_preferred() -> None:
    fair = [float(np.mean(play_episodes(random_player(2, s), ShortAreBad(32), 32, s))) for s in range(30)]
    error = float(np.std(fair) / np.sqrt(len(fair)))
    assert abs(np.mean(fair) - 50.5) < 4 * error
    assert error < 3  # so that taking the first 32 to end, which gives less than 20, would be found out


@pytest.mark.parametrize(("episodes", "count"), [(1, 4), (4, 4), (7, 3), (10, 1)])
def test_exactly_so_many_episodes(episodes: int, count: int) -> None:
    assert len(play_episodes(random_player(2, 0), ShortAreBad(count), episodes, seed=0)) == episodes


def test_the_seeds_decide() -> None:
    def run(player: int, seed: int) -> tuple[float, ...]:
        return play_episodes(random_player(3, player), make("minatar/breakout", 4), 12, seed)

    assert run(0, 0) == run(0, 0)
    assert run(0, 0) != run(1, 0)
    assert run(0, 0) != run(0, 1)


def test_a_player_hears_where_an_episode_begins() -> None:
    heard = []

    def play(observations: NDArray[np.uint8], begun: NDArray[np.bool_]) -> NDArray[np.int64]:
        heard.append(begun.copy())
        return np.zeros(len(observations), np.int64)

    environments = ShortAreBad(5)
    play_episodes(play, environments, 20, seed=2)
    environments.reset(2)
    assert heard[0].all()
    for begun in heard[1:]:
        assert np.array_equal(begun, environments.step(np.zeros(5, np.int64)).ended)


def test_a_random_player_takes_every_action_equally_often() -> None:
    actions = random_player(4, seed=0)(np.zeros((40_000, 1), np.uint8), np.ones(40_000, np.bool_))
    counts = np.bincount(actions, minlength=4)
    assert len(counts) == 4
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(40_000 * 0.25 * 0.75)


def test_lives_are_no_episodes() -> None:
    with pytest.raises(InputError, match="life_ends=False"):
        play_episodes(random_player(2, 0), ShortAreBad(3, lives=True), 3, seed=0)


def test_no_episodes_are_refused() -> None:
    with pytest.raises(InputError, match="'episodes' parameter of returns"):
        play_episodes(random_player(2, 0), ShortAreBad(1), 0, seed=0)
