"""The data of equation 9.11: one strong feature for each class, and many weak ones that all point to class 1.

The equation writes σ where a covariance matrix has variances. We read it as it stands: `variance` is the number on the
diagonal. docs/results/bias.md says what speaks for this and what against it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

EPOCHS = 5
"""What the thesis calls "prior to convergence": this number of passes was scikit-learn's default until version 0.20."""
MOST_EPOCHS = 1000
"""Where a training to convergence gives up, by scikit-learn's default of today."""


def draw(n: int, weak: int, variance: float, random: np.random.Generator) -> tuple[Array, Array]:
    """`n` examples `(n, 2 + weak)` with an even prior, and their labels."""
    y = random.integers(0, 2, n)
    noise = random.standard_normal((n, 2 + weak)) * np.sqrt(variances(weak, variance))
    return means(weak)[y] + noise, y


def means(weak: int) -> Array:
    """μ₀ and μ₁: `(2, 2 + weak)`."""
    return np.stack([np.r_[0.0, 1.0, np.zeros(weak)], np.r_[1.0, 0.0, np.ones(weak)]])


def variances(weak: int, variance: float) -> Array:
    """The diagonal of Σ: `(2 + weak,)`."""
    return np.concatenate([[1.0, 1.0], np.full(weak, variance)])


def exact(weights: Array, bias: float, variance: float) -> tuple[float, float]:
    """The bias amplification and the accuracy of a linear classifier on all such data, without any test sample.

    Given the class, the score is Gaussian (equation 9.4).

    >>> exact(np.array([1.0, -1.0]), 0.0, 10.0)  # the Bayes-optimal classifier where there are no weak features
    (0.0, 0.7602499389065233)
    """
    from scipy.special import ndtr

    weak = len(weights) - 2
    spread = np.sqrt(np.square(weights) @ variances(weak, variance))
    score = means(weak) @ weights + bias
    # A classifier without weights always says the same.
    said_0, said_1 = ndtr(score / spread) if spread > 0 else np.repeat(float(bias > 0), 2)
    return float((said_0 + said_1) / 2 - 0.5), float((1 - said_0 + said_1) / 2)


def sgd(x: Array, y: Array, epochs: int | None, seed: int, *, loss: str = "log_loss", penalty: str = "l2") -> Any:
    """scikit-learn's linear classifier by SGD, as it comes, fitted for a number of epochs.

    None is until its loss no longer falls, but for `MOST_EPOCHS` at most: `n_iter_` says how many there were.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import SGDClassifier

    stop = {"max_iter": MOST_EPOCHS, "tol": 1e-3} if epochs is None else {"max_iter": epochs, "tol": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the caller notes n_iter_
        return SGDClassifier(loss=loss, penalty=penalty, random_state=seed, **stop).fit(x, y)
