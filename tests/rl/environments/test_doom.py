"""Doom by copies: the screens and rewards of ViZDoom's own gymnasium wrapper, kept and put back exactly."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelkeep.core.errors import InputError, MissingExtra
from modelkeep.rl.environments.catalogue import make
from modelkeep.rl.environments.doom import SCENARIOS, Doom
from modelkeep.rl.environments.episodes import Episodes
from modelkeep.rl.environments.screens import ScreenShrinker
from modelkeep.rl.environments.vector import StepResult
from modelkeep.training.checkpoint import Snapshot
from rl.environments.plays import are_same, draw_actions


@pytest.fixture(scope="module")
def basic() -> Iterator[Doom]:
    environments = Doom("basic", 2)
    yield environments
    environments.close()


@pytest.mark.filterwarnings("ignore")
def test_the_screens_and_rewards_are_those_of_vizdooms_own_wrapper(
    basic: Doom, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from vizdoom import ScreenResolution
    from vizdoom.gymnasium_wrapper.gymnasium_env_defns import VizdoomScenarioEnv

    monkeypatch.chdir(tmp_path)  # theirs writes there
    theirs: Any = VizdoomScenarioEnv(
        "basic.cfg", frame_skip=4, max_buttons_pressed=1, screen_resolution=ScreenResolution.RES_160X120
    )
    expected, _ = theirs.reset(seed=3)
    monkeypatch.setattr(Episodes, "seed", lambda self, copy: theirs.game.get_seed())
    shrink = ScreenShrinker((120, 160), (72, 96))
    shown = basic.reset(0)
    assert np.array_equal(shown[0], shrink(expected["screen"].transpose(2, 0, 1)))
    total = 0.0
    for action in np.random.default_rng(0).integers(0, 4, 100):
        stepped = basic.step(np.array([action, 0]))
        expected, reward, terminated, truncated, _ = theirs.step(-action % 4)  # it counts the buttons from the last
        total += reward
        assert stepped.rewards[0] == reward
        assert stepped.ended[0] == (terminated or truncated)
        if stepped.ended[0]:
            assert stepped.returns[0] == total
            break
        assert np.array_equal(stepped.observations[0], shrink(expected["screen"].transpose(2, 0, 1)))
    assert stepped.ended[0]
    theirs.close()


def test_what_was_kept_goes_on_exactly(basic: Doom, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    basic.reset(1)
    for actions in draw_actions(basic, 90, 0):  # into the second episode
        basic.step(actions)
    snapshot = Snapshot.from_bytes(Snapshot(*basic.state(), identity={}).to_bytes(), "the test")
    later = draw_actions(basic, 80, 1)
    first = [basic.step(actions) for actions in later]
    assert any(each.returns for each in first)
    monkeypatch.chdir(tmp_path)
    other = Doom("basic", 2)
    assert list(tmp_path.iterdir()) == []  # it leaves nothing where we are
    other.reset(2)
    for environments in (basic, other):
        environments.restore((snapshot.tensors, snapshot.values))
        assert are_same([environments.step(actions) for actions in later], first)
    other.close()


def test_the_seed_decides_and_copies_differ(basic: Doom) -> None:
    def run(seed: int) -> list[StepResult]:
        basic.reset(seed)
        return [basic.step(np.zeros(2, np.int64)) for _ in range(5)]

    once = run(1)
    assert are_same(once, run(1))
    assert not are_same(once, run(2))
    last = once[-1].observations
    assert not np.array_equal(last[0], last[1])
    assert last.dtype == np.uint8
    assert last.shape == (2, 3, 72, 96)
    assert last.flags.c_contiguous
    assert not np.shares_memory(last, once[-2].observations)


def test_every_scenario_is_there_and_has_only_buttons() -> None:
    import vizdoom

    for scenario in SCENARIOS:
        game = vizdoom.DoomGame()
        assert game.load_config(str(Path(vizdoom.scenarios_path) / f"{scenario}.cfg"))
        assert not any("DELTA" in button.name for button in game.get_available_buttons())


def test_an_unknown_scenario_and_a_missing_package_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="Did you mean 'take_cover'"):
        make("doom/takecover", 1)
    monkeypatch.setitem(sys.modules, "vizdoom", None)
    with pytest.raises(MissingExtra, match=r"pip install 'modelkeep\[rl\]'"):
        make("doom/basic", 1)
