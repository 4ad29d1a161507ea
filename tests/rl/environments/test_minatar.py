"""MinAtar by copies: the same games as MinAtar's own, kept and put back exactly."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from modelkeep.core.errors import InputError, MissingExtra
from modelkeep.core.fingerprint import fingerprint
from modelkeep.rl.environments.catalogue import make
from modelkeep.rl.environments.minatar import GAMES, MOST_STEPS, MinAtar
from modelkeep.rl.environments.vector import Environments, State, StepResult
from modelkeep.training.checkpoint import Snapshot
from rl.environments.plays import are_same, draw_actions


def played(environments: Environments, actions: NDArray[np.int64]) -> list[StepResult]:
    return [environments.step(each) for each in actions]


def through_a_file(state: State) -> State:
    snapshot = Snapshot.from_bytes(Snapshot(*state, identity={}).to_bytes(), "the test")
    return snapshot.tensors, snapshot.values


@pytest.mark.parametrize("game", GAMES)
def test_a_game_is_played_as_minatar_plays_it(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # its wrapper does without, and is imported sooner
    ours = MinAtar(game, 3)
    shown = ours.reset(seed=7)
    theirs: list[Any] = []
    for seed in np.random.SeedSequence(7).generate_state(3):
        theirs.append(importlib.import_module("minatar").Environment(game))
        theirs[-1].seed(seed)
        theirs[-1].reset()
    assert np.array_equal(shown, [each.state().transpose(2, 0, 1) for each in theirs])
    allowed = theirs[0].minimal_action_set()
    assert ours.actions == len(allowed)
    sums = [0.0] * 3
    ends = 0
    for actions in draw_actions(ours, 2_600, seed=1):
        stepped = ours.step(actions)
        returns = []
        for i, (each, action) in enumerate(zip(theirs, actions, strict=True)):
            reward, over = each.act(allowed[action])
            sums[i] += reward
            assert (stepped.rewards[i], stepped.ended[i]) == (reward, over)
            if over:
                returns.append(sums[i])
                sums[i] = 0.0
                ends += 1
                each.reset()
            assert np.array_equal(stepped.observations[i], each.state().transpose(2, 0, 1))
        assert stepped.returns == tuple(returns)
    assert ends > 0


@settings(max_examples=15, deadline=None)
@given(game=st.sampled_from(GAMES), before=st.integers(0, 300), seed=st.integers(0, 2**32))
def test_what_was_kept_goes_on_exactly(game: str, before: int, seed: int) -> None:
    environments = make(f"minatar/{game}", 2)
    environments.reset(seed)
    played(environments, draw_actions(environments, before, seed))
    kept = through_a_file(environments.state())
    later = draw_actions(environments, 300, seed + 1)
    first = played(environments, later)
    environments.restore(kept)
    assert are_same(played(environments, later), first)
    other = make(f"minatar/{game}", 2)
    other.reset(seed + 1)
    other.restore(kept)
    assert are_same(played(other, later), first)


def test_what_was_kept_does_not_change_with_the_game() -> None:
    for game in GAMES:
        environments = make(f"minatar/{game}", 2)
        environments.reset(3)
        played(environments, draw_actions(environments, 100, 0))
        kept = environments.state()
        before = fingerprint(kept[0], json.dumps(kept[1]))
        played(environments, draw_actions(environments, 100, 1))
        assert fingerprint(kept[0], json.dumps(kept[1])) == before
        environments.restore(kept)
        played(environments, draw_actions(environments, 100, 1))
        assert fingerprint(kept[0], json.dumps(kept[1])) == before


def test_the_seed_decides_and_copies_differ() -> None:
    environments = make("minatar/asterix", 4)
    actions = np.repeat(draw_actions(environments, 200, 0)[:, :1], 4, axis=1)

    def run(seed: int) -> list[StepResult]:
        environments.reset(seed)
        return played(environments, actions)

    once = run(1)
    assert are_same(once, run(1))
    assert not are_same(once, run(2))
    assert any(not np.array_equal(each.observations[0], each.observations[1]) for each in once)


def test_observations_are_ones_and_zeros_in_memory_order_and_are_not_overwritten() -> None:
    environments = make("minatar/seaquest", 2)
    first = environments.reset(0)
    kept = first.copy()
    stepped = played(environments, draw_actions(environments, 50, 0))
    assert np.array_equal(first, kept)
    last = stepped[-1].observations
    assert last.dtype == np.uint8
    assert last.shape == (2, 10, 10, 10)
    assert last.flags.c_contiguous
    assert set(np.unique(last)) == {0, 1}
    assert not np.shares_memory(stepped[-1].observations, stepped[-2].observations)


def test_an_episode_has_at_most_so_many_steps() -> None:
    environments = make("minatar/seaquest", 2)
    environments.reset(0)
    tensors, values = environments.state()
    environments.restore((tensors, values | {"steps": [MOST_STEPS - 1, MOST_STEPS - 2], "returns": [5.0, 6.0]}))
    stepped = environments.step(np.zeros(2, np.int64))
    assert stepped.ended.tolist() == [True, False]
    assert stepped.returns == (5.0,)
    assert environments.step(np.zeros(2, np.int64)).returns == (6.0,)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("minatar/brekout", "Did you mean 'breakout'"),
        ("mintar/breakout", "Did you mean 'minatar'"),
        ("breakout", "no family of environments 'breakout'"),
        ("minatar/", "There are: asterix, breakout"),
    ],
)
def test_an_unknown_name_is_answered_with_a_near_one(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(name, 1)


def test_no_copies_are_refused() -> None:
    with pytest.raises(InputError, match="'count' parameter of make"):
        make("minatar/breakout", 0)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'modelkeep\[rl\]'"):
        make("minatar/breakout", 1)


def test_making_a_game_imports_no_plotting() -> None:
    program = (
        "import sys, json; from modelkeep.rl.environments.catalogue import make; make('minatar/breakout', 1);"
        "print(json.dumps([name for name in ('matplotlib', 'seaborn', 'minatar', 'gymnasium') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
