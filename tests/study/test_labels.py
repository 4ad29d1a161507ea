"""The labels of a study's trials tell them apart."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from modelkeep.study import Trial
from modelkeep.study.labels import labels

MEAN, MEDIAN = "statistics:fmean", "statistics:median"
names = st.sampled_from(["a", "b", "c"])
values = st.none() | st.booleans() | st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2)
parameters = st.dictionaries(names, values | st.dictionaries(names, values, max_size=2), max_size=3)


@given(st.lists(st.tuples(st.sampled_from([MEAN, MEDIAN]), parameters, st.integers(0, 1)), max_size=6))
def test_trials_that_differ_have_labels_that_differ(made: list[tuple[str, dict[str, Any], int]]) -> None:
    trials = list({trial.identity: trial for trial in (Trial.of(*one) for one in made)}.values())
    assert len(set(labels(trials))) == len(trials)


def test_a_word_that_two_places_have_is_told_with_its_place() -> None:
    trials = [
        Trial.of(MEAN, {"task": {"name": name}, "part": {"name": part}, "long": "x" * 100})
        for name in ("breakout", "pong")
        for part in ("conv1", "conv2")
    ]
    assert labels(trials)[1] == 'fmean(part.name="conv2", task.name="breakout") seed 0'


def test_what_follows_from_something_shorter_is_left_out() -> None:
    tables = {"T1": [0.05, 0.005, 0.0005], "T2": [0.01, 0.001, 0.0001]}
    trials = [Trial.of(MEAN, {"name": name, "rates": table}) for name, table in tables.items()]
    assert labels(trials) == ['fmean(name="T1") seed 0', 'fmean(name="T2") seed 0']


def test_trials_of_other_functions_and_seeds_are_told_by_those() -> None:
    trials = [Trial.of(MEAN, {"data": [1]}, seed=0), Trial.of(MEAN, {"data": [1]}, seed=1), Trial.of(MEDIAN, {"x": 1})]
    assert labels(trials) == ["fmean(data=[1]) seed 0", "fmean(data=[1]) seed 1", "median(x=1) seed 0"]
