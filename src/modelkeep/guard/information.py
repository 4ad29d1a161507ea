"""Information: how close any recovery can come to the clean predictions (lemma 2 of Tang2024), estimated.

Lemma 2: E‖ỹ − y‖² ≥ d/(2πe) · exp(2/d · h(Y|Ŷ)). The paper writes it with d = C. Confidences sum to one, so their
density lives on the simplex of C − 1 dimensions and has none in C (h would be −∞). We therefore take d = C − 1 and
measure volume on the simplex itself; its Euclidean distances are those of the C coordinates, so nothing else changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.results import Estimate, Result, measured


@dataclass(frozen=True, kw_only=True, eq=False)
class InformationBound(Result, kind="information-bound"):
    """Lemma 2 for one query against a quantiser, and the loss that the best recovery had on the same predictions.

    `entropy` is the estimate of h(Y|Ŷ) in nats: −∞ as soon as one answer stands for one prediction only, and then
    `bound` says nothing (0). `bound_by_answer` is the line before Jensen's inequality in appendix A.3: the mean of the
    bounds of the single answers, which is never below `bound`. `bayes_loss` is E‖E[Y|Ŷ] − Y‖², the loss of the Bayes
    attack with full knowledge. An entropy estimated from few samples in many dimensions errs: no proof.
    """

    answers: int
    alone: Estimate
    entropy: float
    bound: float
    bound_by_answer: Estimate
    bayes_loss: Estimate

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("different answers", str(self.answers)),
            ("queries alone with their answer", str(self.alone)),
            ("conditional entropy h(Y|Ŷ), nats", f"{self.entropy:.3f}"),
            ("lemma 2: recovery errs by at least", f"{self.bound:.3g}"),
            ("before Jensen's inequality", f"{self.bound_by_answer.value:.3g} (n={self.bound_by_answer.n})"),
            ("the Bayes attack errs by", f"{self.bayes_loss.value:.3g} (n={self.bayes_loss.n})"),
        ]


def information_bound(
    clean: NDArray[Any], answers: NDArray[Any], *, neighbours: int = 3, seed: int = 0
) -> InformationBound:
    """Estimate lemma 2's bound from clean predictions and the answers to them, (n, classes) both.

    The entropy within each answer is the Kozachenko–Leonenko estimate from the distances to the nearest neighbours.

    >>> y = np.random.default_rng(0).uniform(0.5, 1, 4000)
    >>> clean = np.stack([y, 1 - y], axis=1)  # a segment of length √2 / 2, and one answer for all of it
    >>> found = information_bound(clean, np.tile([0.75, 0.25], (4000, 1)))
    >>> round(found.entropy, 1), round(math.log(math.sqrt(2) / 2), 1)
    (-0.3, -0.3)
    """
    given, told = np.asarray(clean, dtype=np.float64), np.ascontiguousarray(answers)
    if given.ndim != 2 or given.shape != told.shape or len(given) == 0 or given.shape[1] < 2:
        raise InputError(
            f"Clean predictions and their answers are two tables of (n, classes). Got {given.shape} and {told.shape}."
        )
    if neighbours < 1:
        raise bad_parameter("information_bound", "neighbours", "at least 1", neighbours)
    dimensions = given.shape[1] - 1
    with measured(seed) as provenance:
        _, which, counts = np.unique(told, axis=0, return_inverse=True, return_counts=True)
        entropies = np.full(len(counts), -math.inf)
        losses = np.zeros(len(given))
        for answer, members in enumerate(np.split(np.argsort(which.ravel(), kind="stable"), np.cumsum(counts)[:-1])):
            entropies[answer] = differential_entropy(given[members], dimensions, neighbours)
            losses[members] = ((given[members] - given[members].mean(axis=0)) ** 2).sum(axis=1)
        entropy = float((counts / len(given)) @ entropies)
        alone = int((counts == 1).sum())
        return InformationBound(
            answers=len(counts),
            alone=Estimate.rate(alone, len(given)),
            entropy=entropy,
            bound=float(least_error(np.array(entropy), dimensions)),
            bound_by_answer=Estimate.bootstrap(least_error(entropies, dimensions)[which.ravel()], seed),
            bayes_loss=Estimate.bootstrap(losses, seed),
            provenance=provenance(),
        )


def least_error(entropy: NDArray[np.float64], dimensions: int) -> NDArray[np.float64]:
    """d/(2πe) · exp(2h/d), equation 14 for one query: what a Gaussian of that entropy has as its total variance."""
    return np.asarray(dimensions / (2 * math.pi * math.e) * np.exp(2 * entropy / dimensions))


def differential_entropy(samples: NDArray[np.float64], dimensions: int, neighbours: int = 3) -> float:
    """Kozachenko–Leonenko: ψ(n) − ψ(k) + log V_d + d · mean log r_k, in nats; −∞ for one sample or equal ones.

    `samples: (n, …)` lie in a flat of `dimensions` d; r_k is the distance of a sample to its k-th neighbour, and V_d
    the volume of the unit ball.
    """
    from scipy.spatial import cKDTree
    from scipy.special import digamma

    if len(samples) < 2:
        return -math.inf
    k = min(neighbours, len(samples) - 1)
    radii = np.reshape(cKDTree(samples).query(samples, k=[k + 1])[0], -1)  # the nearest is the sample itself
    if (radii == 0).any():
        return -math.inf
    ball = dimensions / 2 * math.log(math.pi) - math.lgamma(dimensions / 2 + 1)
    return float(digamma(len(samples)) - digamma(k) + ball + dimensions * np.log(radii).mean())
