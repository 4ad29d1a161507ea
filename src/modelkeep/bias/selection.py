"""Which features a linear classifier keeps: feature parity and experts, in plain numbers (Leino2022, section 9.3).

A binary linear classifier predicts class 1 where `features @ weights + bias > 0`. A feature's influence is its weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkeep.bias.gaussian import from_first
from modelkeep.core.errors import InputError

Array = NDArray[Any]

# The grid of (α, β) is searched whole up to these numbers of cells and of predictions: about two seconds of one core.
MOST_CELLS, MOST_PREDICTIONS = 4_000_000, 2_000_000_000


@dataclass(frozen=True, eq=False)
class Selection:
    """The features that are kept, `keep: (d,)`: the α most positive and the β most negative ones.

    `amplification` is E[F(x) - y] and `accuracy` the share of right answers, both on the data that were given. `exact`
    says whether every pair (α, β) was looked at.
    """

    keep: Array
    alpha: int
    beta: int
    amplification: float
    accuracy: float
    exact: bool


def orientation(features: Array, labels: Array) -> Array:
    """The class that each feature is oriented towards: the sign of its mean in class 1 minus that in class 0.

    >>> orientation(np.array([[0.0, 3.0], [1.0, 2.0]]), np.array([0, 1]))
    array([ 1., -1.])
    """
    ones = binary(labels)
    centred = from_first(features)
    found: Array = np.sign(centred[ones].mean(axis=0) - centred[~ones].mean(axis=0))
    return found


def select_parity(weights: Array, features: Array, labels: Array) -> Array:
    """The features `(d,)` to keep so that as many are oriented towards class 0 as towards class 1.

    From the class with more features the least influential ones are dropped. Only features with a weight count.

    >>> features = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    >>> select_parity(np.array([0.1, 3.0, -2.0]), features, np.array([0, 1]))
    array([False,  True,  True])
    """
    _require_fit(weights, features, labels)
    towards = orientation(features, labels) * (weights != 0)
    surplus = int(towards.sum())
    keep = np.ones(len(weights), dtype=bool)
    crowded = np.flatnonzero(towards == np.sign(surplus))
    weakest = crowded[np.argsort(np.abs(weights[crowded]), kind="stable")]
    keep[weakest[: abs(surplus)]] = surplus == 0
    return keep


def select_experts(weights: Array, bias: float, features: Array, labels: Array) -> Selection:
    """The α features of most positive and the β of most negative influence that amplify bias least.

    Among all (α, β) whose accuracy on these data is not below that of the whole model, the one of the smallest
    absolute E[F(x) - y]. Keeping all features is always allowed, so neither number can get worse on these data.
    Leino2022 does not say which of several best pairs to take. We take the most accurate, and then the one with the
    fewest features: to remove weak ones is the aim, and data that are fitted perfectly cannot tell.

    Scores of all pairs are sums of two running sums, so a pair costs one comparison per example. Where there are more
    than about 4,000 features (or very many examples), α and β run over a geometric grid in place of every number.

    Args:
        weights: `(d,)`.
        bias: Of the whole model; what is removed adds its mean to it, see `remove`.
        features: `(n, d)`.
        labels: `(n,)`, of two classes 0 and 1.
    """
    _require_fit(weights, features, labels)
    ones = binary(labels)
    weights = np.asarray(weights, dtype=np.float64)
    means = features.mean(axis=0, dtype=np.float64)
    order = np.argsort(-np.abs(weights), kind="stable")
    positive, negative = order[weights[order] > 0], order[weights[order] < 0]
    most = int(min(MOST_CELLS, MOST_PREDICTIONS / len(features)) ** 0.5)
    alphas, betas = _steps(len(positive), most), _steps(len(negative), most)
    scores = _Scores(weights, float(bias), features, means, positive, alphas, negative, betas)
    yes0, yes1 = scores.count_positive(np.flatnonzero(~ones)), scores.count_positive(np.flatnonzero(ones))

    def measure(keep: Array) -> tuple[int, int]:
        """By how many predictions of class 1 the classifier with these features is off, and how many are right."""
        kept_weights, kept_bias = remove(weights, bias, means, keep)
        predicted = features @ kept_weights + kept_bias > 0
        return int(predicted.sum()) - int(ones.sum()), int((predicted == ones).sum())

    everything = np.ones(len(weights), dtype=bool)
    base_excess, base_right = measure(everything)
    excess = np.abs(yes0 + yes1 - ones.sum())
    right = yes1 + (~ones).sum() - yes0
    excess[-1, -1], right[-1, -1] = abs(base_excess), base_right
    refused = len(features) + 1
    excess[right < base_right] = refused
    while True:
        best = np.argwhere(excess == excess.min())
        size = alphas[best[:, 0]] + betas[best[:, 1]]
        i, j = best[np.lexsort((size, -right[best[:, 0], best[:, 1]]))[0]]
        keep = everything.copy()
        keep[positive[alphas[i] :]] = False
        keep[negative[betas[j] :]] = False
        found_excess, found_right = measure(keep)
        # Running sums are rounded otherwise than the classifier, which has the last word on a score of almost 0.
        if abs(found_excess) <= abs(base_excess) and found_right >= base_right:
            break
        excess[i, j] = refused
    n = len(features)
    return Selection(
        keep=keep,
        alpha=int(alphas[i]),
        beta=int(betas[j]),
        amplification=found_excess / n,
        accuracy=found_right / n,
        exact=len(alphas) == len(positive) + 1 and len(betas) == len(negative) + 1,
    )


def remove(weights: Array, bias: float, means: Array, keep: Array) -> tuple[Array, float]:
    """The classifier without the features that are not kept, which then always stand at their mean.

    The bias takes up weight × mean of each, so that the mean score stays what it was. (Leino2022
    subtracts the product; with a bias that is added, as here, that would move the mean score by twice the product.)

    >>> remove(np.array([1.0, 2.0]), 0.5, np.array([3.0, 4.0]), np.array([True, False]))
    (array([1., 0.]), 8.5)
    """
    gone = ~np.asarray(keep)
    return np.where(gone, 0.0, weights), float(bias + (weights[gone] * means[gone]).sum())


def binary(labels: Array) -> Array:
    """The labels as booleans, True for class 1; refused where there is only one class."""
    labels = np.asarray(labels)
    found = np.unique(labels)
    if not np.isin(found, (0, 1)).all():
        raise InputError(f"Labels must be 0 and 1, for the two classes. Got {found[:5].tolist()}.")
    if len(found) < 2:
        raise InputError(f"Both classes must occur in the data. All {len(labels)} examples have the label {found}.")
    return np.asarray(labels == 1)


def _require_fit(weights: Array, features: Array, labels: Array) -> None:
    if features.ndim != 2 or weights.shape != features.shape[1:] or labels.shape != features.shape[:1]:
        raise InputError(
            "Features (n, d) need weights (d,) and labels (n,). "
            f"Got features {features.shape}, weights {weights.shape} and labels {labels.shape}."
        )


def _steps(count: int, most: int) -> Array:
    """0 … count, or at most `most` of these numbers in geometric steps, with both ends."""
    if count < most:
        return np.arange(count + 1)
    return np.unique(np.concatenate([[0], np.geomspace(1, count, max(most - 1, 2)).round().astype(np.int64)]))


@dataclass(frozen=True, eq=False)
class _Scores:
    """The scores of all classifiers that keep the first α of `positive` and the first β of `negative` features."""

    weights: Array
    bias: float
    features: Array
    means: Array
    positive: Array
    alphas: Array
    negative: Array
    betas: Array

    def count_positive(self, members: Array) -> Array:
        """How many of the examples `members` have a score above 0, for each α and β: `(|alphas|, |betas|)`."""
        total = np.zeros((len(self.alphas), len(self.betas)), dtype=np.int64)
        nothing_kept = self.bias + self.means @ self.weights
        # At most 255 examples at once, so that their counts fit into bytes, which is what makes adding them up fast.
        size = int(np.clip(2e7 // max(len(self.weights), 1), 1, 255))
        for start in range(0, len(members), size):
            rows = members[start : start + size]
            needed = -nothing_kept - self._partial_scores(rows, self.positive, self.alphas)
            given = self._partial_scores(rows, self.negative, self.betas)
            for i in range(len(self.alphas)):
                above = given > needed[:, i : i + 1]
                total[i] += np.add.reduce(above.view(np.uint8), axis=0, dtype=np.uint8)
        return total

    def _partial_scores(self, rows: Array, chosen: Array, steps: Array) -> Array:
        """What the first features of `chosen` add to the score of the mean example: `(rows, steps)`."""
        adds = (self.features[np.ix_(rows, chosen)] - self.means[chosen]) * self.weights[chosen]
        sums: Array = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(adds, axis=1)], axis=1)
        return sums[:, steps]
