"""Φ(depth, width): the power law that fits measured plasticity best, and how sure one can be of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.results import Estimate

Array = NDArray[Any]

RESAMPLES = 2000
FEWEST = 6
"""Of fewer trials an interval would say nothing."""


@dataclass(frozen=True)
class Phi:
    """log2 Φ = constant + depth · log2 depth + width · log2 width, over `n` trials.

    `interaction` is the weight of the product of the two logarithms, each less its mean, where it is added to the
    fit: 0 where Φ is separable, a function of depth times a function of width. `explained` is the share of the
    variance of log2 Φ that the fit explains without it (R²).
    """

    constant: Estimate
    depth: Estimate
    width: Estimate
    interaction: Estimate
    explained: float

    def __call__(self, depth: float, width: float) -> float:
        """What it expects of a network."""
        return float(2 ** (self.constant.value + self.depth.value * np.log2(depth) + self.width.value * np.log2(width)))


def fit_phi(depth: Sequence[float], width: Sequence[float], log2_phi: Sequence[float], seed: int) -> Phi | None:
    """Least squares, with bootstrap intervals over trials; None of fewer than six trials or on less than a 2 × 2 grid.

    >>> grid = [(d, w) for d in (1, 2, 3) for w in (2, 4, 8)]
    >>> phi = fit_phi(*zip(*grid), [np.log2(5 * d**0.5 * w**2) for d, w in grid], seed=0)
    >>> round(phi.depth.value, 6), round(phi.width.value, 6), round(phi(4, 2), 6)
    (0.5, 2.0, 40.0)
    """
    logs = np.log2(np.array([depth, width], dtype=np.float64)).T
    y = np.asarray(log2_phi, dtype=np.float64)
    additive = np.column_stack([np.ones(len(y)), logs])
    centred = logs - logs.mean(axis=0) if len(y) else logs
    full = np.column_stack([additive, centred.prod(axis=1)])
    if len(y) < FEWEST or np.linalg.matrix_rank(full) < full.shape[1]:
        return None
    constant, by_depth, by_width = _coefficients(additive, y, seed)
    interaction = _coefficients(full, y, seed)[-1]
    rest = y - additive @ np.array([constant.value, by_depth.value, by_width.value])
    spread = float(((y - y.mean()) ** 2).sum())
    explained = 1 - float((rest**2).sum()) / spread if spread > 0 else 1.0
    return Phi(constant, by_depth, by_width, interaction, explained)


def rank_correlation(a: Sequence[float], b: Sequence[float], seed: int) -> Estimate | None:
    """Spearman's: 1 where both rank alike, with its bootstrap interval over pairs; None of fewer than six pairs."""
    from scipy.stats import rankdata

    pairs = np.column_stack([a, b])
    if len(pairs) < FEWEST or any(len(np.unique(column)) < 2 for column in pairs.T):
        return None
    drawn = np.random.default_rng(seed).integers(0, len(pairs), (RESAMPLES, len(pairs)))
    samples = np.concatenate([np.arange(len(pairs))[None], drawn])  # the first one is all pairs as they are
    ranks = np.asarray(rankdata(pairs[samples], axis=1))
    ranks = ranks - ranks.mean(axis=1, keepdims=True)
    spread = np.sqrt((ranks**2).sum(axis=1).prod(axis=1))
    found = ranks.prod(axis=2).sum(axis=1)[spread > 0] / spread[spread > 0]
    low, high = np.quantile(found[1:], [0.025, 0.975])
    return Estimate(float(found[0]), float(low), float(high), len(pairs))


def _coefficients(design: Array, y: Array, seed: int) -> list[Estimate]:
    """Least squares; the intervals are of trials drawn with replacement, where these still determine all terms."""
    n, terms = design.shape
    value = np.linalg.lstsq(design, y, rcond=None)[0]
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), RESAMPLES)
    products = np.einsum("rn,ni,nj->rij", counts, design, design)
    determined = np.linalg.cond(products) < 1e9
    moments = np.einsum("rn,ni,n->ri", counts, design, y)[determined]
    drawn = np.linalg.solve(products[determined], moments[..., None])[..., 0]
    # The residuals of a fit of that many terms are too small by this factor, and the spread of the draws with them.
    drawn = value + (drawn - value) * np.sqrt(n / (n - terms))
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    return [Estimate(float(v), float(a), float(b), n) for v, a, b in zip(value, low, high, strict=True)]
