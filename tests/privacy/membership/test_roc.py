"""The measures against scikit-learn, closed forms for two Gaussians, and the coverage of their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import balanced_accuracy_score, precision_score, roc_auc_score, roc_curve

from modelkeep.privacy.membership.roc import Array, area, decide, operating_point, roc

few = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=30)


def labelled(members: Array, non_members: Array) -> tuple[Array, Array]:
    return np.repeat([1.0, 0.0], [len(members), len(non_members)]), np.concatenate([members, non_members])


@given(few, few)
def test_scikit_learn_has_the_same_curve_and_area(members: list[float], non_members: list[float]) -> None:
    inside, outside = np.array(members), np.array(non_members)
    truth, scores = labelled(inside, outside)
    false, true, _ = roc_curve(truth, scores, drop_intermediate=False)
    ours = roc(inside, outside)
    np.testing.assert_allclose(ours[0], false)
    np.testing.assert_allclose(ours[1], true)
    found = area(inside, outside)
    assert found.value == pytest.approx(roc_auc_score(truth, scores))
    assert found.low <= found.value <= found.high


@given(few, few, st.sampled_from([0.001, 0.01, 0.1, 0.5]))
def test_the_operating_point_is_the_best_of_the_curve(
    members: list[float], non_members: list[float], rate: float
) -> None:
    inside, outside = np.array(members), np.array(non_members)
    false, true, _ = roc_curve(*labelled(inside, outside), drop_intermediate=False)
    point = operating_point(inside, outside, rate)
    assert point.found.value == pytest.approx(true[false <= rate + 1e-12].max())
    assert point.found.low <= point.found.value <= point.found.high
    assert point.enough or (point.found.low == 0 and not point.claimed)


@given(few, few)
def test_scikit_learn_makes_the_same_of_the_decisions(members: list[float], non_members: list[float]) -> None:
    inside, outside = np.array(members), np.array(non_members)
    truth, scores = labelled(inside, outside)
    found = decide(inside, outside)
    assert found.balanced_accuracy.value == pytest.approx(balanced_accuracy_score(truth, scores > 0))
    weights = np.where(truth == 1, 1 / len(inside), 1 / len(outside))  # both kinds equally likely
    wanted = precision_score(truth, scores > 0, sample_weight=weights, zero_division=np.nan)
    assert found.precision.value == pytest.approx(wanted if (scores > 0).any() else 0.5)
    assert found.precision.low <= found.precision.value <= found.precision.high


SHIFT = 1.0


def draw(seed: int, m: int, n: int) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    return random.normal(SHIFT, 1, m), random.normal(0, 1, n)


def test_two_gaussians_have_their_closed_forms() -> None:
    members, non_members = draw(0, 200_000, 200_000)
    assert area(members, non_members).value == pytest.approx(norm.cdf(SHIFT / 2**0.5), abs=0.003)
    for rate in (0.001, 0.01):
        wanted = norm.sf(norm.isf(rate) - SHIFT)
        assert operating_point(members, non_members, rate).found.value == pytest.approx(wanted, rel=0.1)
    half = decide(members - SHIFT / 2, non_members - SHIFT / 2)
    assert half.balanced_accuracy.value == pytest.approx(norm.cdf(SHIFT / 2), abs=0.003)
    assert half.advantage.value == pytest.approx(2 * norm.cdf(SHIFT / 2) - 1, abs=0.006)


def test_the_intervals_hold_the_truth_as_often_as_they_say() -> None:
    runs, hits = 300, {"area": 0, "point": 0, "advantage": 0, "precision": 0}
    true, false = norm.sf(0.5 - SHIFT), norm.sf(0.5)
    for seed in range(runs):
        members, non_members = draw(seed, 150, 600)
        decision = decide(members - 0.5, non_members - 0.5)
        hits["area"] += not area(members, non_members).excludes(norm.cdf(SHIFT / 2**0.5))
        hits["point"] += not operating_point(members, non_members, 0.01).found.excludes(norm.sf(norm.isf(0.01) - SHIFT))
        hits["advantage"] += not decision.advantage.excludes(true - false)
        hits["precision"] += not decision.precision.excludes(true / (true + false))
    assert all(hit >= 0.92 * runs for hit in hits.values()), hits


def test_a_perfect_attack_on_few_records_is_not_certain() -> None:
    members, non_members = np.full(10, 2.0), np.full(10, 1.0)
    found = area(members, non_members)
    assert found.value == 1.0
    assert found.low == pytest.approx(0.025 ** (1 / 10))
    assert operating_point(members, non_members, 0.01).needed == 437
    assert operating_point(members, non_members, 0.001).needed == 4380
    assert not operating_point(members, non_members, 0.01).claimed


def test_enough_non_members_make_a_claim() -> None:
    point = operating_point(np.full(100, 2.0), np.linspace(0, 1, 437), 0.01)
    assert point.enough
    assert point.claimed
    assert not operating_point(np.full(100, 2.0), np.linspace(0, 1, 436), 0.01).enough
