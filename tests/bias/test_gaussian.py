"""Theorem 9.1 holds for drawn Gaussian classes, and its limits are the right ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from modelkeep.bias import bayes_amplification, bayes_classifier, mahalanobis
from modelkeep.bias.gaussian import pooled_variance, unbiased_squared_distance
from modelkeep.core.errors import InputError
from modelkeep.zoo import datasets

priors, distances = st.floats(0.5, 1.0), st.floats(0.0, 50.0)


@given(priors, distances)
def test_lies_between_none_and_half(prior: float, distance: float) -> None:
    found = bayes_amplification(prior, distance)
    assert -1e-12 <= found <= 1 - prior + 1e-12


@given(st.floats(0.001, 0.999), st.floats(0.001, 50.0))
def test_is_the_theorem_as_leino2022_prints_it(prior: float, distance: float) -> None:
    beta = -np.log(prior / (1 - prior)) / distance
    printed = 1 - prior - (1 - prior) * norm.cdf(beta + distance / 2) - prior * norm.cdf(beta - distance / 2)
    assert bayes_amplification(prior, distance) == pytest.approx(printed, abs=1e-12)


@given(st.floats(0.0, 1.0), distances)
def test_amplifies_the_other_class_alike(prior: float, distance: float) -> None:
    assert bayes_amplification(1 - prior, distance) == pytest.approx(-bayes_amplification(prior, distance), abs=1e-12)


@given(distances)
def test_an_even_prior_is_not_amplified(distance: float) -> None:
    assert bayes_amplification(0.5, distance) == pytest.approx(0.0, abs=1e-15)  # corollary 9.2


@given(st.floats(0.51, 0.99), st.floats(0.05, 5.0))
def test_an_uneven_prior_is_amplified_the_more_the_closer_the_classes(prior: float, distance: float) -> None:
    """Leino2022 says "if and only if p* > 0", and means 1/2."""
    assert 0 < bayes_amplification(prior, distance) <= bayes_amplification(prior, distance / 2) + 1e-15


def test_limits() -> None:
    assert bayes_amplification(0.7, 0.0) == pytest.approx(0.3)  # no information: always the majority
    assert bayes_amplification(0.3, 0.0) == pytest.approx(-0.3)
    assert bayes_amplification(0.5, 0.0) == 0.0
    assert bayes_amplification(0.7, float("inf")) == 0.0
    assert bayes_amplification(1.0, float("inf")) == bayes_amplification(1.0, 0.0) == bayes_amplification(0.0, 2.0) == 0
    assert bayes_amplification(0.7, 1e-9) == pytest.approx(0.3)


def test_takes_arrays() -> None:
    found = bayes_amplification(np.array([0.5, 0.75]), np.array([[1.0], [0.5]]))
    assert found.shape == (2, 2)
    assert found[1, 1] == bayes_amplification(0.75, 0.5)


@pytest.mark.parametrize(("prior", "distance"), [(0.6, 0.5), (0.75, 1.0), (0.9, 2.0), (0.55, 0.2), (0.5, 1.0)])
def test_agrees_with_drawn_gaussians(prior: float, distance: float) -> None:
    """The classifier of equation 9.2, with both slips put right, on data of equation 9.1 with features of any scale."""
    random = np.random.default_rng(3)
    n, deviation = 400_000, np.array([0.5, 2.0, 7.0])
    mean0 = np.array([1.0, -3.0, 10.0])
    mean1 = mean0 + np.array([1.0, -1.0, 1.0]) / 3**0.5 * deviation * distance
    y = random.random(n) < prior
    x = np.where(y[:, None], mean1, mean0) + deviation * random.normal(size=(n, 3))
    weights, bias = bayes_classifier(prior, mean0, mean1, deviation**2)
    predicted = x @ weights + bias > 0
    # Four standard errors of the mean of F(x) - y, which is -1, 0 or 1.
    error = 4 * float(np.std(predicted.astype(float) - y)) / n**0.5
    assert float(np.mean(predicted.astype(float) - y)) == pytest.approx(bayes_amplification(prior, distance), abs=error)
    assert mahalanobis(x[~y], x[y]) == pytest.approx(distance, abs=0.02)


def test_no_other_linear_classifier_is_more_accurate() -> None:
    random = np.random.default_rng(0)
    y = random.random(50_000) < 0.7
    x = np.where(y[:, None], [1.0, 0.5], [0.0, 0.0]) + random.normal(size=(50_000, 2)) * [1.0, 2.0]
    weights, bias = bayes_classifier(0.7, np.zeros(2), np.array([1.0, 0.5]), np.array([1.0, 4.0]))
    best = np.mean((x @ weights + bias > 0) == y)
    for change in random.normal(size=(200, 3)) * 0.5:
        assert np.mean((x @ (weights + change[:2]) + bias + change[2] > 0) == y) <= best + 0.002


def test_distance_equals_that_of_discriminant_analysis() -> None:
    """For the full covariance, D² is the difference of the class means along the discriminant's weights."""
    random = np.random.default_rng(1)
    x0, x1 = random.normal(size=(40, 3)) @ random.normal(size=(3, 3)), random.normal(size=(30, 3)) + 1.0
    both, labels = np.concatenate([x0, x1]), np.repeat([0, 1], [40, 30])
    fitted = LinearDiscriminantAnalysis(solver="lsqr").fit(both, labels)
    squared = fitted.coef_[0] @ (x1.mean(axis=0) - x0.mean(axis=0))
    # scikit-learn divides by n, we by n - 2.
    assert mahalanobis(x0, x1, covariance="full") ** 2 == pytest.approx(squared * 68 / 70)


def test_table_9_2_has_the_distance_by_the_total_covariance() -> None:
    """Leino2022 gives 1.81 for the breast cancer data, which no covariance within the classes comes near."""
    parts = [datasets.load("breast-cancer", part) for part in ("train", "test")]
    x, y = np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts])
    assert mahalanobis(x[y == 0], x[y == 1], covariance="total") == pytest.approx(1.81, abs=0.01)
    assert mahalanobis(x[y == 0], x[y == 1], covariance="full") == pytest.approx(3.82, abs=0.01)
    assert mahalanobis(x[y == 0], x[y == 1]) == pytest.approx(8.43, abs=0.01)


def test_unbiased_distance_is_right_on_average() -> None:
    """With 200 features and 20 examples, the plain D² of classes at D² = 40 is more than half chance."""
    random = np.random.default_rng(0)
    shift = np.zeros(200)
    shift[:40] = 1.0
    found, plain = [], []
    for _ in range(600):
        x0, x1 = random.normal(size=(8, 200)), random.normal(size=(12, 200)) + shift
        variance, difference = pooled_variance(x0, x1), x1.mean(axis=0) - x0.mean(axis=0)
        found.append(unbiased_squared_distance(difference, variance, 8, 12))
        plain.append(mahalanobis(x0, x1) ** 2)
    assert np.mean(plain) > 80
    assert np.mean(found) == pytest.approx(40.0, abs=4 * float(np.std(found)) / 600**0.5)
    assert unbiased_squared_distance(np.array([0.01]), np.ones(1), 8, 12) == 0.0


def test_features_that_never_vary_do_not_count() -> None:
    random = np.random.default_rng(0)
    x0, x1 = random.normal(size=(7, 2)), random.normal(size=(9, 2)) + 1
    constant0, constant1 = np.full((7, 1), 0.1), np.full((9, 1), 0.1)  # whose means differ, by rounding
    assert mahalanobis(np.hstack([x0, constant0]), np.hstack([x1, constant1])) == pytest.approx(mahalanobis(x0, x1))
    assert mahalanobis(np.zeros((3, 1)), np.ones((3, 1))) == float("inf")


def test_refuses_what_has_no_answer() -> None:
    with pytest.raises(InputError, match=r"'prior' parameter of bayes_amplification must be a probability"):
        bayes_amplification(1.2, 1.0)
    with pytest.raises(InputError, match="'distance'"):
        bayes_amplification(0.6, -1.0)
    with pytest.raises(InputError, match="singular"):
        mahalanobis(np.random.default_rng(0).normal(size=(3, 9)), np.ones((3, 9)), covariance="full")
    with pytest.raises(InputError, match="'covariance' parameter"):
        mahalanobis(np.ones((3, 1)), np.ones((3, 1)), covariance="tied")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="both classes"):
        mahalanobis(np.ones((3, 1)), np.ones((0, 1)))
    with pytest.raises(InputError, match="above 0 and below 1"):
        bayes_classifier(1.0, np.zeros(1), np.ones(1), np.ones(1))
