"""The omniscient attack on Gaussian data: the best there is, from the true means (Leino2022, theorem 8.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GaussianClasses:
    """Classes with means `(classes, d)` and independent features with variances `(d,)` (eq. 8.2)."""

    means: Array
    variances: Array

    def draw(self, per_class: int, random: np.random.Generator) -> tuple[Array, NDArray[np.int64]]:
        """As many records of each class: features `(n, d)` and labels."""
        y = np.repeat(np.arange(len(self.means)), per_class)
        return self.means[y] + random.standard_normal((len(y), len(self.variances))) * np.sqrt(self.variances), y


def means_of(x: Array, y: NDArray[np.int64], classes: int) -> Array:
    """The empirical mean of each class."""
    return np.stack([x[y == c].mean(axis=0) for c in range(classes)])


def omniscient_scores(x: Array, y: NDArray[np.int64], members: Array, population: GaussianClasses) -> Array:
    """The log odds of membership from the members' means `(classes, d)` and the population (eq. 8.4).

    The sigmoid of it is the probability. The thesis prints the sigmoid as (1 + eˣ)⁻¹, which falls with x; its eq. 8.7
    and all its attacks need (1 + e⁻ˣ)⁻¹, which is meant here.
    """
    weights = (members - population.means) / population.variances
    bias = ((population.means**2 - members**2) / (2 * population.variances)).sum(axis=1)
    scores: Array = (weights[y] * x).sum(axis=1) + bias[y]
    return scores


def expected_accuracy(features: int, per_class: int) -> float:
    """What the omniscient attack reaches with `per_class` members in each class: Φ(½ √(d / k)).

    The log odds of a member have the mean d / 2k and those of another record -d / 2k, both with the variance d / k
    but for terms of order d / k²: the members' mean is as far from the true one as k draws leave it, and a member has
    its own share in it.

    >>> [round(expected_accuracy(75, k), 3) for k in (10, 20, 40)]
    [0.915, 0.834, 0.753]
    """
    from scipy.special import ndtr

    return float(ndtr(np.sqrt(features / per_class) / 2))
