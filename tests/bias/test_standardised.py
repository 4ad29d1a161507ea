"""The fit on standardised features is scikit-learn's, does not depend on units, and keeps the shares of the classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bias.networks import drawn_network, gaussian_data
from modelkeep.bias.mitigation import StandardiseMitigation
from modelkeep.bias.standardised import fit_standardised


def test_is_scikit_learns_optimum_in_the_features_as_they_come() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(120, 4)) * [1.0, 50.0, 0.01, 1.0] + [100.0, 0.0, 3.0, 0.0]
    x[:, 3] = 7.0  # never varies
    y = (generator.random(120) < 1 / (1 + np.exp(-(x[:, 0] - 100 + x[:, 1] / 50)))).astype(int)
    weight, bias = fit_standardised(x, y, 2, 0.02)
    z = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    # Two logits of weights w and -w have twice the slope, and each its share of the penalty.
    peer = LogisticRegression(C=1 / (0.01 * 120), tol=1e-10, max_iter=10_000).fit(z, y)
    ours = x @ (weight[1] - weight[0]) + bias[1] - bias[0]
    np.testing.assert_allclose(ours, peer.decision_function(z), atol=1e-3)
    assert (weight[:, 3] == 0).all()
    moved = fit_standardised(x * [1, 1000, 1, 1] + 5, y, 2, 0.02)
    np.testing.assert_allclose(
        (x * [1, 1000, 1, 1] + 5) @ (moved[0][1] - moved[0][0]) + moved[1][1] - moved[1][0], ours, atol=1e-3
    )


def test_the_mean_probability_of_each_class_is_its_share() -> None:
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(90, 3)), generator.integers(0, 3, 90)
    weight, bias = fit_standardised(x, y, 3, 0.1)
    scores = np.exp(x @ weight.T + bias)
    np.testing.assert_allclose(
        (scores / scores.sum(axis=1, keepdims=True)).mean(axis=0), np.bincount(y) / 90, atol=1e-4
    )


def test_a_network_gets_the_new_head_and_nothing_else() -> None:
    model, data = drawn_network(), gaussian_data(prior=0.7)
    found = StandardiseMitigation()(model, data, seed=0)
    assert found.towards is None
    assert abs(found.after.value) <= abs(found.before.value) + 0.05
    assert found.accuracy_after.value >= found.accuracy_before.value - 0.05
    assert found.method == "standardise"
    with pytest.raises(Exception, match="strength"):
        StandardiseMitigation(strength=0.0)(model, data, seed=0)
