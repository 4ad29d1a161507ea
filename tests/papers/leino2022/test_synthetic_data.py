"""The data of equation 9.11, against what is drawn and against what is counted."""

from __future__ import annotations

import numpy as np
import pytest

from modelkeep.bias.gaussian import bayes_classifier
from modelkeep.papers.leino2022.synthetic_data import draw, exact, means, variances


def test_the_drawn_data_have_the_equations_means_and_variances() -> None:
    x, y = draw(200_000, 3, 10.0, np.random.default_rng(0))
    assert y.mean() == pytest.approx(0.5, abs=0.005)
    np.testing.assert_allclose(x[y == 0].mean(axis=0), [0, 1, 0, 0, 0], atol=0.04)
    np.testing.assert_allclose(x[y == 1].mean(axis=0), [1, 0, 1, 1, 1], atol=0.04)
    np.testing.assert_allclose(x[y == 1].var(axis=0), [1, 1, 10, 10, 10], rtol=0.03)


def test_exact_bias_and_accuracy_are_those_of_many_drawn_examples() -> None:
    random = np.random.default_rng(1)
    weights, bias = random.standard_normal(7), 0.3
    x, y = draw(400_000, 5, 4.0, random)
    said = x @ weights + bias > 0
    amplified, accuracy = exact(weights, bias, 4.0)
    assert amplified == pytest.approx(np.mean(said.astype(float) - y), abs=0.003)
    assert accuracy == pytest.approx(np.mean(said == y), abs=0.003)


def test_the_bayes_optimal_classifier_is_unbiased_and_most_accurate() -> None:
    mean0, mean1 = means(20)
    weights, bias = bayes_classifier(0.5, mean0, mean1, variances(20, 5.0))
    amplified, accuracy = exact(weights, bias, 5.0)
    assert amplified == pytest.approx(0, abs=1e-12)  # corollary 9.2
    for change in np.random.default_rng(2).standard_normal((10, 22)):
        assert exact(weights + 0.1 * change, bias, 5.0)[1] < accuracy


def test_a_classifier_without_weights_always_says_the_same() -> None:
    assert exact(np.zeros(4), 1.0, 5.0) == (0.5, 0.5)
    assert exact(np.zeros(4), -1.0, 5.0) == (-0.5, 0.5)
