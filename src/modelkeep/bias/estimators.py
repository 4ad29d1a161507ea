"""The mitigations as scikit-learn estimators around any binary linear classifier (Leino2022, section 9.3).

Import this module on its own: it loads scikit-learn, which `modelkeep.bias` does not.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import SGDClassifier
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from modelkeep.bias.selection import remove, select_experts, select_parity


class _Selecting(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier of two classes some of whose features were removed after it was fitted."""

    def __init__(self, estimator: Any = None, random_state: Any = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a clone of the estimator on `X: (n, d)` and `y: (n,)`, then remove features."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        if type_of_target(y) != "binary":
            # In scikit-learn's own words, which its checks look for.
            raise ValueError(f"Only binary classification is supported. The type of the target is {type_of_target(y)}.")
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        usual = SGDClassifier(loss="log_loss", random_state=self.random_state)
        self.estimator_ = clone(self.estimator) if self.estimator is not None else usual
        self.estimator_.fit(X, y)
        if not hasattr(self.estimator_, "coef_") or not hasattr(self.estimator_, "intercept_"):
            raise ValueError(
                "The 'estimator' parameter must be a linear classifier, which has coef_ and intercept_ after fit. "
                f"Got {self.estimator!r} instead."
            )
        weights, bias = np.ravel(self.estimator_.coef_), float(np.ravel(self.estimator_.intercept_)[0])
        self.support_ = self._select(weights, bias, X, labels)
        weights, bias = remove(weights, bias, X.mean(axis=0), self.support_)
        self.coef_, self.intercept_ = weights[None], np.array([bias])
        return self

    def decision_function(self, X: Any) -> Any:
        """The score `(n,)` of the second class; it is predicted where the score is above 0."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return X @ self.coef_[0] + self.intercept_[0]

    def predict(self, X: Any) -> Any:
        """The predicted classes `(n,)`."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int)]

    def _select(self, weights: Any, bias: float, X: Any, labels: Any) -> Any:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class FeatureParityClassifier(_Selecting):
    """Feature parity: as many features towards one class as towards the other, see `modelkeep.bias.selection`.

    `estimator` is any linear classifier of two classes; by default a logistic regression that is trained by SGD in
    the order that `random_state` draws, which an estimator of yours has itself.
    `support_` says which features are kept.
    """

    def _select(self, weights: Any, bias: float, X: Any, labels: Any) -> Any:
        return select_parity(weights, X, labels)


class ExpertsClassifier(_Selecting):
    """Experts: the `alpha_` most positive and `beta_` most negative features, see `modelkeep.bias.selection`.

    `estimator` is any linear classifier of two classes; by default a logistic regression that is trained by SGD in
    the order that `random_state` draws, which an estimator of yours has itself.
    `support_` says which features are kept.
    """

    def _select(self, weights: Any, bias: float, X: Any, labels: Any) -> Any:
        found = select_experts(weights, bias, X, labels)
        self.alpha_, self.beta_ = found.alpha, found.beta
        return found.keep


def sparse_classifier(*, strength: float = 1e-4, seed: int) -> SGDClassifier:
    """The third mitigation (Leino2022, section 9.3): a logistic regression trained by SGD with an ℓ1 penalty."""
    return SGDClassifier(loss="log_loss", penalty="l1", alpha=strength, random_state=seed)
