"""ModelGuard-W against HiGHS, against all points of a small grid, and in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from guard.defences.programmes import ONE as FINE
from guard.defences.programmes import draw, highs
from modelkeep.guard.defences import ModelGuardW
from modelkeep.guard.defences.modelguard_w import solve
from modelkeep.guard.grid import ONE, Predictions, confidences, distortion, snap


def solved(units: NDArray[np.int64], top: int, allowed: int, one: int) -> NDArray[np.int64]:
    answers = np.empty((1, len(units)), np.int64)
    solve(units[None], np.array([top]), np.array([allowed]), one, answers)
    return answers.reshape(-1)


@pytest.mark.parametrize("seed", range(8))
def test_the_optimum_is_that_of_highs(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(8):
        programmes = [draw(random) for _ in range(50)]
        for programme, optimum in zip(programmes, highs(programmes), strict=True):
            x = solved(programme.units, programme.top, programme.allowed, FINE)
            assert x.sum() == FINE
            assert x.min() >= 0
            assert (np.delete(x, programme.top) < x[programme.top]).all()
            assert np.abs(x - programme.units).sum() <= programme.allowed
            assert programme.costs @ (x / FINE) == pytest.approx(optimum, abs=1e-7)


@settings(max_examples=150)
@given(st.lists(st.integers(0, 8), min_size=2, max_size=4), st.integers(0, 30))
def test_no_whole_point_of_a_small_grid_is_better(weights: list[int], allowed: int) -> None:
    units = np.array(weights, dtype=np.int64)
    top = int(units.argmax())
    units[top] += 2
    one = int(units.sum())
    costs = np.log(np.maximum(units, 0.5) / one)
    x = solved(units, top, allowed, one)
    others = np.indices((one // 2 + 1,) * (len(units) - 1)).reshape(len(units) - 1, -1).T
    points = np.insert(others, top, one - others.sum(axis=1), axis=1)
    strict = (np.delete(points, top, axis=1) < points[:, [top]]).all(axis=1)
    points = points[strict & (points[:, top] >= 0) & (np.abs(points - units).sum(axis=1) <= allowed)]
    assert (points == x).all(axis=1).any()
    assert costs @ x <= (points @ costs).min() + 1e-9


def test_two_classes_move_to_the_budget_or_to_the_tie() -> None:
    clean = snap(np.array([[0.875, 0.125]]))
    np.testing.assert_array_equal(confidences(ModelGuardW(0.25)(clean)), [[0.75, 0.25]])
    assert ModelGuardW(2.0)(clean).tolist() == [[ONE // 2 + 1, ONE // 2 - 1]]


def test_without_a_budget_appendix_a2_says_which_classes_survive() -> None:
    """Every class but the top is either at the top's level or at zero, up to the one at the threshold."""
    clean = snap(np.random.default_rng(0).dirichlet(np.full(20, 0.5), 50))
    answers = ModelGuardW(2.0)(clean)
    for y, answer, label in zip(clean.units, answers, clean.labels, strict=True):
        full = answer >= answer[label] - 1
        partial = ~full & (answer > 0)
        assert partial.sum() <= 1
        full[label] = False
        if full.any() and (answer == 0).any():  # the smallest are full, the largest empty
            assert y[full].max() <= np.delete(y, label)[np.delete(answer, label) == 0].min()


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_budget_that_moves_no_unit_leaves_the_prediction(allowed: int) -> None:
    clean = snap(np.random.default_rng(1).dirichlet(np.full(6, 0.5), 20))
    spent = np.full(len(clean), 2 * ONE - allowed)
    answers = ModelGuardW(2.0)(Predictions(clean.units, clean.labels, spent))
    np.testing.assert_array_equal(answers, clean.units)


def test_the_budget_is_used_in_full_where_it_binds() -> None:
    clean = snap(np.random.default_rng(2).dirichlet(np.full(30, 0.1), 100))
    answers = ModelGuardW(0.1)(clean)
    assert (clean.allowed(0.1) - distortion(answers, clean.units) <= 1).all()
