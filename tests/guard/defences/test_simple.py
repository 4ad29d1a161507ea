"""No defence, top-1, rounding and reverse sigmoid against their own formulas; the segment that bounds them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard.predictions import Raw, exact_distance, exactly, raw_predictions
from modelkeep.core.errors import InputError
from modelkeep.guard.defences import NoDefence, ReverseSigmoid, Rounding, TopOne
from modelkeep.guard.defences.rounding import RoundingEach
from modelkeep.guard.defences.segment import move_toward
from modelkeep.guard.grid import ONE, confidences, distortion, snap


@given(raw_predictions())
def test_none_is_clean_and_top_1_is_one_hot(raw: Raw) -> None:
    clean = snap(raw)
    np.testing.assert_array_equal(NoDefence()(clean), clean.units)
    np.testing.assert_array_equal(confidences(TopOne()(clean)), np.eye(raw.shape[1])[raw.argmax(axis=1)])


@given(raw_predictions(), st.integers(1, 6))
def test_rounded_answers_have_their_decimals_and_a_bound(raw: Raw, decimals: int) -> None:
    clean = snap(raw)
    answers = Rounding(decimals)(clean)
    steps = answers / ONE * 10**decimals
    assert np.abs(steps - steps.round()).max() <= 10**decimals / ONE  # a step is on the grid up to one unit
    assert (steps.round().sum(axis=1) == 10**decimals).all()
    bound = Fraction(raw.shape[1] + 4, 2 * 10**decimals)
    for y, answer in zip(clean.units, answers, strict=True):
        assert exact_distance(exactly(y, ONE), exactly(answer, ONE)) <= bound + Fraction(raw.shape[1], ONE)


def test_the_papers_rounding_is_kept_up_to_its_sum() -> None:
    raw = np.random.default_rng(0).dirichlet(np.ones(5), size=200)
    answers = confidences(RoundingEach(1)(snap(raw))).astype(float)
    rounded = np.floor(raw * 10 + 0.5)
    np.testing.assert_allclose(answers, rounded / rounded.sum(axis=1, keepdims=True), atol=6 / ONE)
    assert (answers.argmax(axis=1) == raw.argmax(axis=1)).all()
    many = confidences(RoundingEach(1)(snap(np.full((1, 100), 0.01))))
    np.testing.assert_allclose(many.sum(), 1)


def test_rounding_by_itself_would_leave_the_simplex() -> None:
    thirds = np.full((1, 3), 1 / 3)
    assert thirds.round(1).sum() != 1
    np.testing.assert_allclose(confidences(Rounding()(snap(thirds))), [[0.4, 0.3, 0.3]], atol=1e-7)
    # A hundred equal classes share ten steps, and the top must stand out.
    many = confidences(Rounding()(snap(np.full((1, 100), 0.01))))[0]
    np.testing.assert_allclose(np.sort(many)[-9:], [0.1] * 8 + [0.2], atol=1e-6)


@given(raw_predictions(), st.floats(0, 0.3), st.sampled_from([0.2, 0.5]))
def test_reverse_sigmoid_is_its_formula_where_that_keeps_the_label(raw: Raw, beta: float, gamma: float) -> None:
    clean = snap(raw)
    y = clean.units / ONE
    with np.errstate(divide="ignore"):
        logit = np.log(y) - np.log1p(-y)
    formula = np.maximum(y - beta * (1 / (1 + np.exp(-gamma * logit)) - 0.5), 0)
    formula /= formula.sum(axis=1, keepdims=True)
    kept = formula.argmax(axis=1) == clean.labels
    np.testing.assert_allclose(confidences(ReverseSigmoid(beta, gamma)(clean))[kept], formula[kept], atol=4 / ONE)


def test_reverse_sigmoid_in_closed_form_for_two_classes() -> None:
    bend = 9**0.2 / (9**0.2 + 1) - 0.5
    answer = confidences(ReverseSigmoid(0.4)(snap(np.array([[0.9, 0.1]]))))
    np.testing.assert_allclose(answer, [[0.9 - 0.4 * bend, 0.1 + 0.4 * bend]], atol=1e-6)


@given(raw_predictions(), raw_predictions(rows=1), st.sampled_from([0.0, 1e-6, 0.03, 0.4, 2.0]))
def test_a_step_towards_a_target_uses_the_budget_and_keeps_its_direction(raw: Raw, aim: Raw, epsilon: float) -> None:
    classes = min(raw.shape[1], aim.shape[1])
    raw = np.maximum(raw[:, :classes], 1e-3)
    clean = snap(raw / raw.sum(axis=1, keepdims=True))
    targets = np.repeat(aim[:, :classes] + 1e-3, len(raw), axis=0).astype(np.float64)
    whole = move_toward(clean, targets, 2.0)
    answers = move_toward(clean, targets, epsilon)
    allowed = clean.allowed(epsilon)
    moved, far = distortion(answers, clean.units), distortion(whole, clean.units)
    assert (moved <= allowed).all()
    # Rounding back costs at most two units per class, and more only where a strict top has no room for it.
    assert (moved >= np.minimum(allowed, far) - 6 * classes - 2).all()
    between = (answers - clean.units).astype(np.int64) * (whole - clean.units) >= 0
    assert between.all()
    assert (np.abs(answers - clean.units) <= np.abs(whole - clean.units)).all()


def test_a_target_with_another_label_is_followed_up_to_the_label() -> None:
    clean = snap(np.array([[0.2, 0.3, 0.5]]))
    answer = move_toward(clean, np.array([[1.0, 0.0, 0.0]]), 2.0)[0]
    assert answer.tolist() == [ONE // 2 - 1, 0, ONE // 2 + 1]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Rounding(0), "decimals"),
        (lambda: Rounding(7), "decimals"),
        (lambda: ReverseSigmoid(-1.0), "beta"),
        (lambda: ReverseSigmoid(1.0, gamma=float("nan")), "gamma"),
        (lambda: ReverseSigmoid(1.0, epsilon=3.0), "epsilon"),
    ],
    ids=["no decimals", "too many", "beta", "gamma", "epsilon"],
)
def test_parameters_out_of_range_are_refused(make: object, name: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=name):
        make()
