"""A trial's identity is a promise: equal trials share it, different ones never do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.core.errors import InputError, StudyError
from modelkeep.study import Trial, grid

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=6,
)
parameters = st.dictionaries(st.text().filter(lambda key: key != "seed"), json_values, max_size=4)


def trial(given: dict[str, Any], seed: int = 0) -> Trial:
    return Trial("trials:square", 1, given, seed, "trials:square")


@given(parameters)
def test_the_order_of_parameters_does_not_matter(values: dict[str, Any]) -> None:
    assert trial(values).identity == trial(dict(reversed(values.items()))).identity


@given(parameters, parameters)
def test_other_parameters_give_another_identity(a: dict[str, Any], b: dict[str, Any]) -> None:
    if a != b:
        assert trial(a).identity != trial(b).identity


def test_name_version_and_seed_are_part_of_the_identity_and_the_place_is_not() -> None:
    trials = [
        Trial("square", 1, {}, 0, "trials:square"),
        Trial("noise", 1, {}, 0, "trials:square"),
        Trial("square", 2, {}, 0, "trials:square"),
        Trial("square", 1, {}, 1, "trials:square"),
        Trial("square", 1, {}, 0, "elsewhere:square"),
    ]
    assert len({t.identity for t in trials}) == 4
    assert trials[0].identity == trials[4].identity
    assert trials[0] == trials[4]


def test_an_edit_of_the_module_makes_no_other_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    source = tmp_path / "edited_trials.py"
    source.write_text("def f(seed): return 1\n")
    before = Trial.of("edited_trials:f", {})
    source.write_text("def f(seed): return 2\n")
    assert before.now() == before


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, r"hold nan at \['x'\]"),
        ([0.0, -math.inf], r"hold -inf at \['x'\]\[1\]"),
        ({"a": {1: 2}}, r"hold a dict at \['x'\]\['a'\]"),
        ({1, 2}, r"hold a set at \['x'\]"),
        (b"bytes", r"hold a bytes at \['x'\]"),
    ],
)
def test_parameters_that_json_cannot_hold_are_named(value: object, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        Trial.of("trials:square", {"x": value})


def test_the_seed_is_given_by_itself() -> None:
    with pytest.raises(InputError, match="'seed'"):
        Trial.of("trials:square", {"seed": 3})
    with pytest.raises(InputError, match="whole number"):
        Trial.of("trials:square", {}, seed=-1)


@pytest.mark.parametrize("name", ["square", "trials:", ":square", "trials:a.b"])
def test_a_function_is_named_with_its_module(name: str) -> None:
    with pytest.raises(InputError, match=r"package\.module:function"):
        Trial.of(name, {})


@pytest.mark.parametrize("name", ["no_such_module:f", "no.such.module:f", "sys:exit", "math:sqrt"])
def test_a_module_without_source_is_refused(name: str) -> None:
    with pytest.raises(StudyError, match="cannot be found as Python source"):
        Trial.of(name, {})


def test_a_function_itself_is_named_where_that_is_possible() -> None:
    assert Trial.of(grid, {}).name == "modelkeep.study.trials:grid"
    named = Trial.of("leino2022/figure-9.1", {})
    assert named.home == "modelkeep.papers.leino2022.figure_9_1:amplify"
    with pytest.raises(InputError, match="top of a module"):
        Trial.of(lambda seed: seed, {})


def test_grid_has_every_combination_once() -> None:
    trials = grid("trials:square", {"x": [1, 2], "wait": [0.0, 0.1, 0.2]}, seeds=range(2))
    assert {(t.parameters["x"], t.parameters["wait"], t.seed) for t in trials} == {
        (x, wait, seed) for x in (1, 2) for wait in (0.0, 0.1, 0.2) for seed in (0, 1)
    }
    assert len(trials) == 12
