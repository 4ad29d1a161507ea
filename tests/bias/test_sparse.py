"""The ℓ1 fit is the one that scikit-learn finds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from modelkeep.bias.sparse import fit_sparse
from modelkeep.core.errors import TrainingError
from modelkeep.zoo import datasets


@pytest.mark.parametrize("strength", [0.01, 0.03, 0.1])
@pytest.mark.parametrize("name", ["wine", "breast-cancer"])
def test_equals_scikit_learn(name: str, strength: float) -> None:
    data = datasets.load(name, "train")
    x, y, classes = data.x.double().numpy(), data.y.numpy(), len(data.classes)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    weights, biases = fit_sparse(x, y, classes, strength)

    def objective(weights: np.ndarray, biases: np.ndarray, penalty: float) -> float:
        scores = x @ weights.T + biases
        losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y]
        return float(losses.mean() + penalty * np.abs(weights).sum())

    peer = LogisticRegression(solver="saga", l1_ratio=1.0, C=1 / (strength * len(y)), tol=1e-6, max_iter=20_000)
    peer.fit(x, y)
    theirs, offsets = peer.coef_, peer.intercept_
    if classes == 2:  # one row for the difference of two logits, whose penalty is the same when it is split
        theirs, offsets = np.stack([-theirs[0] / 2, theirs[0] / 2]), np.array([-offsets[0] / 2, offsets[0] / 2])
    assert objective(weights, biases, strength) <= objective(theirs, offsets, strength) + 1e-6
    np.testing.assert_allclose(x @ (weights[1] - weights[0]), x @ (theirs[1] - theirs[0]), atol=0.05)


def test_a_strong_penalty_leaves_only_the_shares_of_the_classes() -> None:
    random = np.random.default_rng(0)
    labels = (np.arange(100) < 30).astype(int)
    weights, biases = fit_sparse(random.normal(size=(100, 5)), labels, 2, 10.0)
    assert not weights.any()
    assert np.exp(biases[1]) / np.exp(biases).sum() == pytest.approx(0.3, abs=0.02)


def test_does_not_depend_on_units_or_on_features_that_never_vary() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 4))
    labels = (x[:, 0] + 0.5 * random.normal(size=80) > 0).astype(int)
    weights, biases = fit_sparse(x, labels, 2, 0.01)
    scale = np.array([1e-3, 10.0, 1.0, 1e3])
    moved = np.hstack([x * scale + 7.0, np.full((80, 1), 0.1)])
    others, other_biases = fit_sparse(moved, labels, 2, 0.01)
    np.testing.assert_allclose(moved @ others.T + other_biases, x @ weights.T + biases, atol=1e-6)
    assert not others[:, 4].any()


def test_says_when_it_has_not_converged() -> None:
    """Separable data and next to no penalty: the best weights are out of reach."""
    x = np.linspace(-1, 1, 20)[:, None] ** 3
    with pytest.raises(TrainingError, match="did not converge"):
        fit_sparse(x, (x[:, 0] > 0).astype(int), 2, 1e-12)
