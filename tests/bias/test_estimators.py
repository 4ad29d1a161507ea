"""The scikit-learn estimators keep scikit-learn's contract, and ours."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from modelkeep.bias.estimators import ExpertsClassifier, FeatureParityClassifier, sparse_classifier
from modelkeep.bias.selection import select_experts, select_parity
from modelkeep.zoo import datasets

ESTIMATORS = [ExpertsClassifier, FeatureParityClassifier]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([kind() for kind in ESTIMATORS])  # type: ignore[untyped-decorator]
def test_keeps_the_contract_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def cancer() -> tuple[Any, Any]:
    data = datasets.load("breast-cancer", "train")
    names = np.array(data.classes)
    return data.x.double().numpy(), names[data.y.numpy()]


@pytest.mark.parametrize(
    "inner",
    [
        SGDClassifier(loss="log_loss", random_state=0),
        LinearSVC(C=1e-4, max_iter=100_000),
        LogisticRegression(max_iter=10_000),
    ],
)
def test_experts_never_do_harm_on_the_training_data(inner: Any) -> None:
    x, y = cancer()
    fitted = ExpertsClassifier(inner).fit(x, y)
    plain = fitted.estimator_.predict(x)
    benign = np.mean(y == "benign")
    assert abs(np.mean(fitted.predict(x) == "benign") - benign) <= abs(np.mean(plain == "benign") - benign)
    assert fitted.score(x, y) >= np.mean(plain == y)
    assert fitted.alpha_ + fitted.beta_ == fitted.support_.sum()


def test_agree_with_the_functions() -> None:
    x, y = cancer()
    labels = (y == "malignant").astype(int)  # the second in the order of the alphabet
    inner = SGDClassifier(loss="log_loss", random_state=0)
    weights, bias = inner.fit(x, y).coef_[0], float(inner.intercept_[0])
    np.testing.assert_array_equal(
        ExpertsClassifier(inner).fit(x, y).support_, select_experts(weights, bias, x, labels).keep
    )
    fitted = FeatureParityClassifier(inner).fit(x, y)
    np.testing.assert_array_equal(fitted.support_, select_parity(weights, x, labels))
    assert not fitted.coef_[0][~fitted.support_].any()
    assert fitted.decision_function(x).mean() == pytest.approx(inner.decision_function(x).mean())


def test_refuses_what_is_not_linear() -> None:
    with pytest.raises(ValueError, match="must be a linear classifier, which has coef_ and intercept_"):
        ExpertsClassifier(GaussianNB()).fit(*cancer())


def test_sparse_classifier_uses_few_features() -> None:
    x, y = cancer()
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    fitted = sparse_classifier(strength=0.02, seed=0).fit(x, y)
    assert (fitted.coef_ != 0).sum() < 20
    assert fitted.score(x, y) > 0.9


def test_the_package_does_not_load_scikit_learn() -> None:
    code = "import sys, modelkeep.bias; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
