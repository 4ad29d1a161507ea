"""The contract of all defences: budget, label and simplex in exact arithmetic, purity, a state that only grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from guard.predictions import Raw, exact_distance, exactly, raw_predictions
from modelkeep import Model
from modelkeep.core.method import options_of
from modelkeep.core.registry import Declaration, declarations
from modelkeep.guard.defence import Defence
from modelkeep.guard.defences import Centroids
from modelkeep.guard.grid import ONE, Predictions, snap


def network(classes: int) -> Model:
    """A small network for the defences that look at the query."""
    with torch.random.fork_rng():
        torch.manual_seed(classes)
        module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, classes))
    return Model(module, input_shape=(3,), classes=tuple(map(str, range(classes))))


def owners(classes: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    return snap(np.random.default_rng(classes).dirichlet(np.ones(classes), 5)).units


Settings = dict[str, Any]
# What differs from the defaults: one variant of a defence for each. A newly declared defence is tested as it comes.
VARIANTS: dict[str, dict[str, Callable[[int], Settings]]] = {
    "rounding": {"": lambda classes: {}, "to 6": lambda classes: {"decimals": 6}},
    "reverse-sigmoid": {"": lambda classes: {"beta": 0.7}, "strong": lambda classes: {"beta": 5.0}},
    "mad": {"": lambda classes: {"surrogate": network(classes), "exact": 3}},
    "adaptive-misinformation": {"": lambda classes: {"threshold": 0.8, "misinformation": network(classes)}},
    "modelguard-s": {
        "": lambda classes: {},
        "secret": lambda classes: {"secret": b"only for the test"},
        "seeded": lambda classes: {"seeded": owners(classes)},
    },
}


def maker(declared: Declaration, given: Callable[[int], Settings]) -> Callable[[int, float], Defence]:
    """The declared defence for a number of classes and a budget, where it has one."""

    def make(classes: int, epsilon: float) -> Defence:
        kind = declared.load()
        budget = {"epsilon": epsilon} if any(option.name == "epsilon" for option in options_of(kind)) else {}
        made: Defence = kind(**given(classes), **budget)
        return made

    return make


DEFENCES = {
    f"{name} {variant}".strip(): maker(declared, given)
    for name, declared in declarations("guard").items()
    for variant, given in VARIANTS.get(name, {"": lambda classes: {}}).items()
}
each_defence = pytest.mark.parametrize("make", DEFENCES.values(), ids=list(DEFENCES))
budgets = st.sampled_from([0.0, 1e-7, 2.0**-22, 0.01, 0.5, 1.0, 1.3, 2.0])


def queries(raw: Raw) -> torch.Tensor:
    return torch.rand(len(raw), 3, generator=torch.Generator().manual_seed(len(raw)))


def rows(predictions: Predictions, chosen: slice) -> Predictions:
    return Predictions(predictions.units[chosen], predictions.labels[chosen], predictions.spent[chosen])


@each_defence
@settings(max_examples=30)
@given(raw_predictions(), budgets)
def test_the_constraints_hold_exactly(make: Callable[[int, float], Defence], raw: Raw, epsilon: float) -> None:
    defence, clean = make(raw.shape[1], epsilon), snap(raw)
    answers = defence(clean, defence.initial(raw.shape[1]), queries(raw))
    assert answers.dtype == np.int32
    assert answers.shape == raw.shape
    assert (answers >= 0).all()
    assert (answers.sum(axis=1, dtype=np.int64) == ONE).all()
    budget = exactly(np.array([defence.epsilon]))[0]
    for y, on_grid, answer in zip(raw, clean.units, answers, strict=True):
        # Where the budget does not even pay for the grid, the answer is the grid's own.
        assert exact_distance(exactly(y), exactly(answer, ONE)) <= budget or (answer == on_grid).all()
        if defence.keeps_top:  # whether a reader takes the first of equals or the last
            assert answer.argmax() == y.argmax() == len(answer) - 1 - answer[::-1].argmax()


@each_defence
@settings(max_examples=15)
@given(raw_predictions(), budgets)
def test_answers_are_a_pure_function_of_prediction_and_state(
    make: Callable[[int, float], Defence], raw: Raw, epsilon: float
) -> None:
    defence, clean, x = make(raw.shape[1], epsilon), snap(raw), queries(raw)
    kept = clean.units.copy()
    state, other = defence.initial(raw.shape[1]), defence.initial(raw.shape[1])
    answers = defence(clean, state, x)
    np.testing.assert_array_equal(clean.units, kept)
    for row in range(len(raw)):  # row by row is as in a batch
        alone = slice(row, row + 1)
        np.testing.assert_array_equal(defence(rows(clean, alone), other, x[alone])[0], answers[row])
    answers += 1  # what the caller does to its answers does not reach the state or the predictions
    np.testing.assert_array_equal(clean.units, kept)
    if isinstance(state, Centroids):
        for label in range(raw.shape[1]):
            np.testing.assert_array_equal(state.rows(label), other.rows(label))


@each_defence
@settings(max_examples=15)
@given(raw_predictions(), budgets)
def test_a_state_is_only_appended_to(make: Callable[[int, float], Defence], raw: Raw, epsilon: float) -> None:
    defence, clean, x = make(raw.shape[1], epsilon), snap(raw), queries(raw)
    state = defence.initial(raw.shape[1])
    if state is None:
        return
    assert isinstance(state, Centroids)
    before = state.copy()
    defence(clean, state, x)
    for label in range(raw.shape[1]):
        np.testing.assert_array_equal(state.rows(label)[: before.length(label)], before.rows(label))
        assert (state.rows(label).argmax(axis=1) == label).all()


@each_defence
def test_it_says_what_it_is(make: Callable[[int, float], Defence]) -> None:
    defence = make(3, 0.5)
    assert defence.name
    assert 0 <= defence.epsilon <= 2
    assert "only for the test" not in repr(defence)
    assert defence == make(3, 0.5) or defence.needs_inputs  # models are equal only to themselves
