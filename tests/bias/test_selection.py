"""Parity and experts choose what the slow, obvious way would choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from modelkeep.bias import selection
from modelkeep.bias.selection import orientation, remove, select_experts, select_parity
from modelkeep.core.errors import InputError

Case = tuple[NDArray[Any], float, NDArray[Any], NDArray[Any]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Weights, bias, features and labels, with ties, dead weights and features that never vary among them."""
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, d = draw(st.integers(2, 30)), draw(st.integers(1, 8))
    labels = random.integers(0, 2, n)
    labels[:2] = [0, 1]
    features = random.normal(size=(n, d)) + labels[:, None] * random.normal(size=d)
    features[:, random.random(d) < 0.1] = 0.1
    weights = random.normal(size=d) * (random.random(d) < 0.9)
    return weights, float(random.normal()), features, labels


def measure(case: Case, keep: NDArray[Any]) -> tuple[float, float]:
    """|B| and accuracy of the classifier in which features that are not kept are held at their mean."""
    weights, bias, features, labels = case
    masked = np.where(keep, features, features.mean(axis=0))
    predicted = masked @ weights + bias > 0
    return abs(float(np.mean(predicted)) - float(np.mean(labels))), float(np.mean(predicted == labels))


def strongest(weights: NDArray[Any], alpha: int, beta: int) -> NDArray[Any]:
    keep: NDArray[Any] = weights == 0
    for sign, count in ((1, alpha), (-1, beta)):
        chosen = [j for j in np.argsort(-np.abs(weights), kind="stable") if np.sign(weights[j]) == sign][:count]
        keep[chosen] = True
    return keep


@given(cases())
def test_experts_are_the_best_of_all_pairs(case: Case) -> None:
    weights = case[0]
    found = select_experts(*case)
    base = measure(case, np.ones(len(weights), dtype=bool))
    pairs = [(a, b) for a in range(int((weights > 0).sum()) + 1) for b in range(int((weights < 0).sum()) + 1)]
    allowed = []
    for a, b in pairs:
        bias, accuracy = measure(case, strongest(weights, a, b))
        if accuracy >= base[1]:
            allowed.append((round(bias, 9), -accuracy, a + b))
    best = min(allowed)
    assert (round(abs(found.amplification), 9), -found.accuracy, found.alpha + found.beta) == best
    np.testing.assert_array_equal(found.keep, strongest(weights, found.alpha, found.beta))
    assert found.exact


@given(cases())
def test_experts_never_do_harm_on_the_data(case: Case) -> None:
    found = select_experts(*case)
    bias, accuracy = measure(case, np.ones(len(case[0]), dtype=bool))
    assert abs(found.amplification) <= bias + 1e-12
    assert found.accuracy >= accuracy


@given(cases())
def test_a_coarse_grid_never_does_harm_either(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "MOST_CELLS", 9)
        coarse = select_experts(*case)
    bias, accuracy = measure(case, np.ones(len(case[0]), dtype=bool))
    assert abs(coarse.amplification) <= bias + 1e-12
    assert coarse.accuracy >= accuracy
    assert abs(select_experts(*case).amplification) <= abs(coarse.amplification)


def test_says_when_the_grid_is_coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    case = random.normal(size=40), 0.1, random.normal(size=(300, 40)), np.arange(300) % 2
    assert select_experts(*case).exact
    monkeypatch.setattr(selection, "MOST_PREDICTIONS", 300 * 25)
    assert not select_experts(*case).exact


def test_counts_more_examples_than_fit_into_a_byte() -> None:
    """One feature, 700 examples of which 600 are said to be class 1."""
    features = np.where(np.arange(700) < 600, 1.0, -1.0)[:, None]
    labels = (np.arange(700) < 600).astype(int)
    found = select_experts(np.array([1.0]), 0.0, features, labels)
    assert (found.alpha, found.amplification, found.accuracy) == (1, 0.0, 1.0)


@given(cases())
def test_parity_leaves_as_many_features_towards_each_class(case: Case) -> None:
    weights, _, features, labels = case
    keep = select_parity(weights, features, labels)
    towards = orientation(features, labels)[keep & (weights != 0)]
    assert (towards > 0).sum() == (towards < 0).sum()
    gone = np.flatnonzero(~keep)
    if len(gone):  # all of one side, and the weakest there
        sides = orientation(features, labels)
        (side,) = set(sides[gone])
        left = [j for j in np.flatnonzero(keep) if sides[j] == side and weights[j] != 0]
        assert all(abs(weights[j]) >= np.abs(weights[gone]).max() for j in left)


@given(cases())
def test_removing_is_holding_at_the_mean_and_keeps_the_mean_score(case: Case) -> None:
    weights, bias, features, labels = case
    keep = np.random.default_rng(len(labels)).random(len(weights)) < 0.5
    means = features.mean(axis=0)
    less, moved = remove(weights, bias, means, keep)
    np.testing.assert_allclose(features @ less + moved, np.where(keep, features, means) @ weights + bias, atol=1e-9)
    assert np.mean(features @ less + moved) == pytest.approx(np.mean(features @ weights + bias), abs=1e-9)
    assert not less[~keep].any()


@given(cases())
def test_keeping_all_features_is_the_classifier_itself(case: Case) -> None:
    weights, bias, features, _ = case
    same, unmoved = remove(weights, bias, features.mean(axis=0), np.ones(len(weights), dtype=bool))
    assert (same == weights).all()
    assert unmoved == bias


def test_orientation_of_a_feature_that_never_varies_is_none() -> None:
    features = np.hstack([np.full((7, 1), 0.1), np.arange(7.0)[:, None]])
    assert orientation(features, np.array([0, 0, 0, 1, 1, 1, 1])).tolist() == [0.0, 1.0]


def test_refuses_what_it_cannot_use() -> None:
    weights, features = np.ones(2), np.ones((3, 2))
    with pytest.raises(InputError, match="Both classes must occur"):
        select_experts(weights, 0.0, features, np.ones(3))
    with pytest.raises(InputError, match="Labels must be 0 and 1"):
        select_parity(weights, features, np.array([0, 1, 2]))
    with pytest.raises(InputError, match=r"Got features \(3, 2\), weights \(4,\) and labels \(3,\)"):
        select_experts(np.ones(4), 0.0, features, np.array([0, 1, 1]))
