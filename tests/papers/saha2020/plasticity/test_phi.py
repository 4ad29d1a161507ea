"""The fit of Φ: it finds the law that data were made from, and says how sure it is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import spearmanr

from modelkeep.papers.saha2020.plasticity.phi import fit_phi, rank_correlation

GRID = list(product([1, 2, 3, 4], [4, 8, 16, 32]))


def noisy(interaction: float = 0.0, noise: float = 0.2, seed: int = 0) -> tuple[list[float], list[float], list[float]]:
    random = np.random.default_rng(seed)
    depth, width = (np.repeat([pair[i] for pair in GRID], 3).astype(float) for i in (0, 1))
    log = 3 + 0.7 * np.log2(depth) + 1.3 * np.log2(width) + interaction * np.log2(depth) * np.log2(width)
    return list(depth), list(width), list(log + noise * random.standard_normal(len(log)))


def test_known_exponents_are_found() -> None:
    phi = fit_phi(*noisy(), seed=0)
    assert phi is not None
    for found, truth in ((phi.constant, 3.0), (phi.depth, 0.7), (phi.width, 1.3), (phi.interaction, 0.0)):
        assert found.value == pytest.approx(truth, abs=0.2)
        assert found.low < found.value < found.high < found.low + 0.5
    assert phi.explained > 0.9
    assert phi(2, 8) == pytest.approx(2 ** (3 + 0.7 + 3.9), rel=0.15)


def test_the_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    fits = [fit_phi(*noisy(noise=0.5, seed=seed), seed=seed) for seed in range(40)]
    for term, truth in (("constant", 3.0), ("depth", 0.7), ("width", 1.3), ("interaction", 0.0)):
        assert 34 <= sum(not getattr(phi, term).excludes(truth) for phi in fits) <= 40


def test_an_interaction_is_seen() -> None:
    phi = fit_phi(*noisy(interaction=0.5), seed=0)
    assert phi is not None
    assert phi.interaction.low < 0.5 < phi.interaction.high
    assert phi.interaction.excludes(0)


def test_too_few_trials_or_one_depth_only_give_no_fit() -> None:
    depth, width, log = noisy()
    assert fit_phi(depth[:5], width[:5], log[:5], seed=0) is None
    assert fit_phi([1.0] * 12, width[:12], log[:12], seed=0) is None
    assert fit_phi([], [], [], seed=0) is None


def test_the_rank_correlation_is_scipys() -> None:
    random = np.random.default_rng(1)
    a = random.standard_normal(20)
    b = a + random.standard_normal(20)
    found = rank_correlation(list(a), list(b), seed=0)
    assert found is not None
    assert found.value == pytest.approx(spearmanr(a, b).statistic)
    assert found.low < found.value < found.high
    assert rank_correlation([1.0, 2.0], [1.0, 2.0], seed=0) is None
    assert rank_correlation([1.0] * 8, list(a[:8]), seed=0) is None
