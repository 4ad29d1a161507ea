"""The grid: nearest points, exact sums, a strict top and an honest account of what was moved."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.predictions import Raw, exact_distance, exactly, raw_predictions
from modelkeep.core.errors import InputError, PredictionError
from modelkeep.guard.grid import ONE, apportion, budget, confidences, distortion, make_strict, snap


@given(raw_predictions())
def test_rows_sum_to_one_and_their_top_is_strict(raw: Raw) -> None:
    on_grid = snap(raw)
    assert (on_grid.units.sum(axis=1, dtype=np.int64) == ONE).all()
    assert (on_grid.units >= 0).all()
    np.testing.assert_array_equal(on_grid.labels, raw.argmax(axis=1))
    for units, label in zip(on_grid.units, on_grid.labels, strict=True):
        assert (np.delete(units, label) < units[label]).all()


@given(raw_predictions())
def test_what_was_spent_is_the_distance_rounded_up(raw: Raw) -> None:
    on_grid = snap(raw)
    for row, units, spent in zip(raw, on_grid.units, on_grid.spent, strict=True):
        exact = exact_distance(exactly(row), exactly(units, ONE)) * ONE
        assert exact <= int(spent) <= math.ceil(exact * (1 + Fraction(1, 10**9)))


@given(raw_predictions(rows=3, classes=40))
def test_no_grid_point_is_nearer_to_the_normalised_prediction(raw: Raw) -> None:
    for row, units in zip(raw, snap(raw).units, strict=True):
        exact = exactly(row)
        exact = [value / sum(exact) * ONE for value in exact]
        # Largest remainders: the nearest point of the grid that sums to one, whatever its top.
        down = [math.floor(value) for value in exact]
        order = sorted(range(len(exact)), key=lambda k: down[k] - exact[k])
        for k in order[: ONE - sum(down)]:
            down[k] += 1
        nearest = exact_distance(exact, [Fraction(value) for value in down])
        ties = sum(value == max(exact) for value in exact)
        strictness = 4 * ties if max(exact) - sorted(exact)[-2] < 3 else 0
        assert exact_distance(exact, exactly(units)) <= nearest + strictness + Fraction(1, 10**6)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=80), st.sampled_from([1, 7, 10, 1000, ONE]))
def test_apportioned_parts_are_largest_remainders(weights: list[int], whole: int) -> None:
    if sum(weights) == 0:
        weights[0] = 1
    parts = np.empty(len(weights), np.int32)
    apportion(np.array(weights, dtype=np.float64), float(sum(weights)), whole, parts, np.empty(len(weights)))
    exact = [Fraction(weight * whole, sum(weights)) for weight in weights]
    down = [math.floor(value) for value in exact]
    gained = sorted((value - low for value, low in zip(exact, down, strict=True)), reverse=True)
    best = sum(gained) + sum(1 - 2 * remainder for remainder in gained[: whole - sum(down)])
    assert parts.sum() == whole
    assert exact_distance(exact, exactly(parts)) == best


@given(st.lists(st.integers(0, 6), min_size=2, max_size=12).filter(any), st.data())
def test_the_top_is_raised_at_the_others_cost_and_none_falls_below_zero(parts: list[int], data: st.DataObject) -> None:
    top = data.draw(st.integers(0, len(parts) - 1))
    raised = np.array(parts, dtype=np.int32)
    make_strict(raised, top)
    assert raised.sum() == sum(parts)
    assert (raised >= 0).all()
    assert (np.delete(raised, top) < raised[top]).all()


@given(raw_predictions())
def test_float32_holds_the_grid_and_the_grid_holds_what_it_holds(raw: Raw) -> None:
    units = snap(raw).units
    answers = confidences(units)
    assert answers.dtype == np.float32
    assert all(exactly(answer) == exactly(row, ONE) for answer, row in zip(answers, units, strict=True))
    again = snap(answers)
    np.testing.assert_array_equal(again.units, units)
    assert not again.spent.any()


@pytest.mark.parametrize("classes", [2, 3, 1000, 20_000])
def test_uniform_predictions_of_many_classes_are_snapped_too(classes: int) -> None:
    units = snap(np.full((1, classes), 1 / classes)).units[0]
    assert units.sum() == ONE
    assert units[0] == units.max()
    assert (units[1:] < units[0]).all()
    assert np.ptp(units[1:]) <= 2


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ([[0.1, float("nan")]], "Prediction 0 of 1 holds NaN"),
        ([[0.5, 0.5], [float("inf"), 0.0]], "Prediction 1 of 2 holds NaN or infinity"),
        ([[1.2, -0.2]], "negative"),
        ([[3.0, 1.0]], "are these logits"),
        ([[0.0, 0.0]], "sums to 0"),
        ([[1.0]], "two classes or more"),
        ([0.5, 0.5], "Got shape"),
    ],
    ids=["nan", "infinity", "negative", "logits", "nothing", "one class", "one row"],
)
def test_what_is_no_prediction_is_refused(wrong: list[float], says: str) -> None:
    with pytest.raises(PredictionError, match=says):
        snap(np.array(wrong))


def test_no_rows_are_no_error() -> None:
    assert len(snap(np.empty((0, 3)))) == 0


def test_budgets_are_rounded_down_and_what_was_spent_comes_off() -> None:
    assert budget(0.3) == math.floor(0.3 * ONE)
    assert budget(2) == 2 * ONE
    on_grid = snap(np.array([[0.1, 0.9], [0.5, 0.5], [0.25, 0.75]], dtype=np.float32))
    np.testing.assert_array_equal(on_grid.allowed(0.5), budget(0.5) - on_grid.spent)
    assert (on_grid.allowed(0.0) == 0).all()
    assert on_grid.spent[2] == 0
    for epsilon in (-0.1, 2.1, float("nan")):
        with pytest.raises(InputError, match="epsilon"):
            budget(epsilon)


def test_distances_do_not_overflow() -> None:
    ours, theirs = np.array([[ONE, 0]], dtype=np.int32), np.array([[0, ONE]], dtype=np.int32)
    assert distortion(ours, theirs).tolist() == [2 * ONE]
