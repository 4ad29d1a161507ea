"""The bias amplification that no classifier can avoid, for Gaussian classes (Leino2022, theorem 9.1).

Where both classes are Gaussian with one covariance, even the best possible classifier predicts the majority more often
than it occurs, and by how much depends on two numbers only: the prior of the majority and the Mahalanobis distance
between the class means.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.errors import InputError, bad_parameter

Array = NDArray[Any]


@overload
def bayes_amplification(prior: float, distance: float) -> float: ...
@overload
def bayes_amplification(prior: Array, distance: float | Array) -> Array: ...
@overload
def bayes_amplification(prior: float, distance: Array) -> Array: ...
def bayes_amplification(prior: float | Array, distance: float | Array) -> float | Array:
    """The bias amplification of the Bayes-optimal classifier, B(h*), in closed form (theorem 9.1).

    Args:
        prior: The probability p* of class 1, from 0 to 1. Below 1/2 the result is negative: class 0 is amplified.
        distance: The Mahalanobis distance D between the class means, 0 to infinity.

    >>> round(bayes_amplification(0.75, 0.5), 3)  # "close to one" of the predictions are class 1
    0.238
    >>> bayes_amplification(0.5, 1.0), bayes_amplification(0.6, 0.0)  # corollary 9.2; no information at all
    (0.0, 0.4)
    """
    from scipy.special import ndtr

    p, D = np.asarray(prior, dtype=np.float64), np.asarray(distance, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise bad_parameter("bayes_amplification", "prior", "a probability from 0 to 1", prior)
    if not (D >= 0).all():
        raise bad_parameter("bayes_amplification", "distance", "a number of at least 0", distance)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Equation 9.8 of Leino2022 lacks the minus of β, which theorem 9.1 and equation 9.9 have.
        beta = -(np.log(p) - np.log1p(-p)) / D
        # Theorem 9.1 with 1 - Φ(t) written as Φ(-t), which loses no digits.
        found = (1 - p) * ndtr(-beta - D / 2) - p * ndtr(beta - D / 2)
    # 0/0 is the even prior without information, or a sure prior with full information: unbiased both.
    found = np.where(np.isnan(found), 0.0, found)
    return float(found) if found.ndim == 0 else found


def mahalanobis(x0: Array, x1: Array, *, covariance: Literal["diagonal", "full", "total"] = "diagonal") -> float:
    """The Mahalanobis distance D between the means of two classes, `x0: (n0, d)` and `x1: (n1, d)`.

    "diagonal" is the naive Bayes assumption of equation 9.1: variances pooled within the classes. "full" pools the
    whole covariance within the classes; the proof of theorem 9.1 holds for it just as well. "total" is the covariance
    of all examples whatever their class. It is not the theorem's, as the difference of the classes adds to it, so that
    it cannot exceed 1 / sqrt(p (1 - p)); but it is what gives the distances in table 9.2 of Leino2022 (on the Wisconsin
    breast cancer data 1.82, where "full" gives 3.8 and "diagonal" 8.4).

    >>> mahalanobis(np.array([[0.0], [2.0]]), np.array([[2.0], [4.0]]))  # means 1 and 3, pooled variance 2
    1.4142135623730951
    """
    both = from_first(np.concatenate([x0, x1]))
    x0, x1 = both[: len(x0)], both[len(x0) :]
    if covariance not in ("diagonal", "full", "total"):
        raise bad_parameter("mahalanobis", "covariance", "'diagonal', 'full' or 'total'", covariance)
    variance = pooled_variance(x0, x1)
    difference = x1.mean(axis=0) - x0.mean(axis=0)
    if covariance == "diagonal":
        return float(np.sqrt(_squares(difference, variance).sum()))
    centred = np.concatenate([x0 - x0.mean(axis=0), x1 - x1.mean(axis=0)])
    freedom = len(centred) - 2
    if covariance == "total":
        centred, freedom = both - both.mean(axis=0), len(both) - 1
    # By singular values of the data themselves, in units of each feature: the covariance would square the error.
    scale = centred.std(axis=0)
    centred, difference = centred[:, scale > 0] / scale[scale > 0], difference[scale > 0] / scale[scale > 0]
    _, singular, axes = np.linalg.svd(centred, full_matrices=False)
    if len(singular) == 0 or len(singular) < len(difference) or singular[-1] < 1e-9 * singular[0]:
        raise InputError(
            f"The covariance of these {len(centred)} examples and {len(scale)} features is singular: leave out "
            "features that follow from others, give more examples, or take covariance='diagonal'."
        )
    return float(np.sqrt(freedom * np.square(axes @ difference / singular).sum()))


def unbiased_squared_distance(difference: Array, variance: Array, n0: int, n1: int) -> float:
    """D² without the part that chance adds: an unbiased estimate for Gaussian features, at least 0.

    Where there are more features than examples, means differ by chance in all of them and D² is mostly that: each
    feature adds 1/n0 + 1/n1. (Δ²/s² is a non-central F with 1 and n0 + n1 - 2 degrees of freedom.)
    """
    freedom = n0 + n1 - 2
    if freedom <= 2:
        raise InputError(f"A distance between classes needs five or more examples. Got {n0 + n1}.")
    squares = _squares(difference, variance)
    varying = int(((variance > 0) | (difference != 0)).sum())
    return max(0.0, float((freedom - 2) / freedom * squares.sum()) - varying * (1 / n0 + 1 / n1))


def bayes_classifier(prior: float, mean0: Array, mean1: Array, variance: Array) -> tuple[Array, float]:
    """The weights and the bias of the Bayes-optimal classifier: it predicts class 1 where `w @ x + b > 0` (eq. 9.2).

    Two slips of Leino2022 are put right: the probability of class 1 is 1 / (1 + exp(-(w @ x + b))), with a minus; and
    b holds the sum of the means, not their difference, or equations 9.5 and 9.6 would not follow from it.

    >>> bayes_classifier(0.5, np.array([0.0]), np.array([2.0]), np.array([4.0]))
    (array([0.5]), -0.5)
    """
    if not 0 < prior < 1:
        raise bad_parameter("bayes_classifier", "prior", "a probability above 0 and below 1", prior)
    mean0, mean1 = np.asarray(mean0, dtype=np.float64), np.asarray(mean1, dtype=np.float64)
    # A feature that never varies tells nothing; one that separates the classes without any noise tells everything,
    # and would need an infinite weight.
    weights = np.divide(mean1 - mean0, variance, out=np.zeros_like(mean0), where=np.asarray(variance) > 0)
    return weights, float(-0.5 * (mean1 + mean0) @ weights + np.log(prior / (1 - prior)))


def pooled_variance(x0: Array, x1: Array) -> Array:
    """The variance of each feature within the classes. `x0: (n0, d)`, `x1: (n1, d)` → `(d,)`."""
    freedom = len(x0) + len(x1) - 2
    if len(x0) == 0 or len(x1) == 0 or freedom < 1:
        raise InputError(
            f"A variance within classes needs both classes and three or more examples. Got {len(x0)} and {len(x1)}."
        )
    squares = np.square(x0 - x0.mean(axis=0)).sum(axis=0) + np.square(x1 - x1.mean(axis=0)).sum(axis=0)
    found: Array = squares / freedom
    return found


def from_first(features: Array) -> Array:
    """The features `(n, d)` as differences from the first example, so that one that never varies is exactly 0.

    Means of equal numbers are rounded, and would make such a feature differ between the classes without any noise.
    """
    exact = np.asarray(features, dtype=np.float64)
    return exact - exact[:1]


def _squares(difference: Array, variance: Array) -> Array:
    """Δ²/σ² per feature: 0 where nothing differs, infinite where classes differ without any noise."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.square(difference) / variance
    return np.where(difference == 0, 0.0, ratio)
