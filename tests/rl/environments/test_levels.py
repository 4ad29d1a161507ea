"""Levels: a game is played as it is, whatever it is made alike to."""

from __future__ import annotations

import numpy as np
import pytest

from modelkeep.core.errors import InputError
from modelkeep.rl.environments.catalogue import make, make_levels
from modelkeep.rl.environments.levels import require_alike

NAMES = "minatar/breakout+minatar/freeway+minatar/space_invaders"


def test_actions_are_the_union_by_name() -> None:
    levels = make_levels(NAMES, 2)
    union = ("nothing", "left", "right", "up", "down", "fire")
    assert [level.action_names for level in levels] == [union] * 3
    assert [level.actions for level in levels] == [6] * 3
    assert {level.observation_shape for level in levels} == {(7, 10, 10)}


def test_a_level_plays_as_its_game_does() -> None:
    """The same actions by name lead the bare game through the same episodes; what it does not know is "nothing"."""
    random = np.random.default_rng(0)
    for level, name in zip(make_levels(NAMES, 4), NAMES.split("+"), strict=True):
        game = make(name, 4)
        channels = game.observation_shape[0]
        shown, seen = level.reset(7), game.reset(7)
        for _ in range(300):
            assert np.array_equal(shown[:, :channels], seen)
            assert not shown[:, channels:].any()
            chosen = random.integers(0, level.actions, 4)
            names = [level.action_names[action] for action in chosen]
            own = [game.action_names.index(one if one in game.action_names else "nothing") for one in names]
            got, wanted = level.step(chosen), game.step(np.array(own))
            assert np.array_equal(got.rewards, wanted.rewards)
            assert np.array_equal(got.ended, wanted.ended)
            assert got.returns == wanted.returns
            shown, seen = got.observations, wanted.observations


def test_a_level_is_kept_and_put_back() -> None:
    level = make_levels(NAMES, 3)[1]
    level.reset(0)
    for _ in range(20):
        level.step(np.array([1, 3, 4]))
    state = level.state()
    ahead = [level.step(np.array([3, 3, 4])).observations for _ in range(10)]
    other = make_levels(NAMES, 3)[1]
    other.restore(state)
    assert all(np.array_equal(other.step(np.array([3, 3, 4])).observations, seen) for seen in ahead)


def test_one_game_stays_as_it_is() -> None:
    games = [make("minatar/asterix", 2)]
    assert require_alike(games)[0] is games[0]


def test_pictures_of_other_sizes_are_refused() -> None:
    with pytest.raises(InputError, match=r"pictures of one size. Got minatar/breakout \(4, 10, 10\), atari/Pong"):
        make_levels("minatar/breakout+atari/Pong", 1)


@pytest.mark.parametrize("name", ["minatar/seaquest", "atari/Pong", "atari/Breakout", "doom/basic"])
def test_the_first_action_does_nothing_and_each_has_a_name(name: str) -> None:
    games = make(name, 1)
    assert games.action_names[0] in ("nothing", "noop")
    assert len(set(games.action_names)) == games.actions
    games.close()
