"""Atari by copies: the screens and rewards of the ALE's own preprocessing, kept and put back exactly."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from modelkeep.core.errors import InputError, MissingExtra
from modelkeep.rl.environments.atari import Atari, games
from modelkeep.rl.environments.catalogue import make
from modelkeep.rl.environments.screens import ScreenShrinker
from modelkeep.rl.environments.vector import StepResult
from modelkeep.rl.evaluation import play_episodes, random_player
from modelkeep.training.checkpoint import Snapshot
from rl.environments.plays import are_same, draw_actions


@pytest.fixture(scope="module")
def breakout() -> Iterator[Atari]:
    environments = Atari("Breakout", 2, life_ends=True)
    yield environments
    environments.close()


@pytest.mark.parametrize("game", ["Breakout", "MsPacman"])
def test_the_screens_and_rewards_are_those_of_the_ales_own_preprocessing(game: str) -> None:
    from ale_py.vector_env import AtariVectorEnv

    ours = Atari(game, 1, life_ends=False)
    shown = ours.reset(5)
    begun = ours._consoles[0].getEpisodeFrameNumber()
    theirs = AtariVectorEnv(
        games()[game].stem, 1, num_threads=1, noop_max=31, reward_clipping=False, use_fire_reset=False
    )
    for _ in range(500):  # until it draws as many frames without an action as we did
        expected, info = theirs.reset()
        if info["episode_frame_number"][0] == begun:
            break
    # Only the rounding of a mean may differ; and before the first screen theirs shows black, ours the first screen.
    assert np.abs(shown[:, -1].astype(int) - expected[:, -1]).max() <= 1
    total = 0.0
    for actions in draw_actions(ours, 150, seed=1):
        stepped = ours.step(actions)
        expected, reward, terminated, truncated, _ = theirs.step(actions)
        assert stepped.rewards[0] == reward[0]
        assert stepped.ended[0] == (terminated[0] or truncated[0])
        if stepped.ended[0]:
            break
        assert np.abs(stepped.observations[:, -1].astype(int) - expected[:, -1]).max() <= 1
        total += reward[0]
    assert total > 0


def test_what_was_kept_goes_on_exactly(breakout: Atari) -> None:
    breakout.reset(1)
    for actions in draw_actions(breakout, 60, 0):
        breakout.step(actions)
    snapshot = Snapshot.from_bytes(Snapshot(*breakout.state(), identity={}).to_bytes(), "the test")
    later = draw_actions(breakout, 150, 1)
    first = [breakout.step(actions) for actions in later]
    assert any(each.returns for each in first)
    other = Atari("Breakout", 2, life_ends=True)
    other.reset(2)
    for environments in (breakout, other):
        environments.restore((snapshot.tensors, snapshot.values))
        assert are_same([environments.step(actions) for actions in later], first)


def test_a_lost_life_is_an_end_for_the_learner_only(breakout: Atari) -> None:
    breakout.reset(3)
    rewards, lives = np.zeros(2), np.zeros(2)
    finished: list[float] = []
    for actions in draw_actions(breakout, 400, 0):
        stepped = breakout.step(actions)
        rewards += stepped.rewards
        lives += stepped.ended
        finished += stepped.returns
        if len(finished) == 2:
            break
    assert len(finished) == 2
    assert lives.sum() >= 10  # five lives an episode
    assert sum(finished) <= rewards.sum()


def test_whole_episodes_are_played_without_lives(breakout: Atari) -> None:
    environments = make("atari/Breakout", 1)
    assert len(play_episodes(random_player(environments.actions, 0), environments, 1, seed=0)) == 1
    with pytest.raises(InputError, match="life_ends=False"):
        play_episodes(random_player(breakout.actions, 0), breakout, 1, seed=0)


def test_the_seed_decides_and_copies_differ(breakout: Atari) -> None:
    actions = np.repeat(draw_actions(breakout, 20, 0)[:, :1], 2, axis=1)

    def run(seed: int) -> list[StepResult]:
        breakout.reset(seed)
        return [breakout.step(each) for each in actions]

    once = run(1)
    assert are_same(once, run(1))
    assert not are_same(once, run(2))
    assert any(not np.array_equal(each.observations[0], each.observations[1]) for each in once)


def test_the_last_four_screens_are_seen_and_nothing_is_overwritten(breakout: Atari) -> None:
    seen = [breakout.reset(0)]
    kept = [seen[0].copy()]
    assert (seen[0] == seen[0][:, :1]).all()
    for actions in draw_actions(breakout, 6, 0):
        seen.append(breakout.step(actions).observations)
        kept.append(seen[-1].copy())
        assert np.array_equal(seen[-1][:, :3], seen[-2][:, 1:])
    assert np.array_equal(seen, kept)
    assert seen[-1].dtype == np.uint8
    assert seen[-1].shape == (2, 4, 84, 84)
    assert seen[-1].flags.c_contiguous


def test_shrinking_is_the_mean_over_the_area() -> None:
    screens = np.random.default_rng(0).integers(0, 256, (3, 7, 10), dtype=np.uint8)
    # The slow way: enlarge without loss, then take means of whole blocks.
    means = screens.repeat(4, axis=1).repeat(3, axis=2).reshape(3, 4, 7, 3, 10).mean(axis=(2, 4))
    assert np.abs(ScreenShrinker((7, 10), (4, 3))(screens) - means).max() <= 0.501


def test_names_are_gymnasiums(monkeypatch: pytest.MonkeyPatch) -> None:
    import ale_py  # noqa: F401  it registers its games
    import gymnasium

    theirs = {name.removeprefix("ALE/").removesuffix("-v5") for name in gymnasium.registry if name.startswith("ALE/")}
    assert {name for name in theirs if "-" not in name} <= set(games())
    with pytest.raises(InputError, match="Did you mean 'Pong'"):
        make("atari/pong", 1)
    monkeypatch.setitem(sys.modules, "ale_py.registration", None)
    with pytest.raises(MissingExtra, match=r"pip install 'modelkeep\[rl\]'"):
        make("atari/Pong", 1)
