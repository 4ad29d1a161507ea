"""Theorem 8.1 against the densities that it is made of, and its accuracy against the closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from modelkeep.privacy.membership.gaussian import GaussianClasses, expected_accuracy, means_of, omniscient_scores


def population(random: np.random.Generator) -> GaussianClasses:
    return GaussianClasses(random.uniform(0, 1, (10, 75)), random.uniform(0.5, 1.5, 75))


def test_the_scores_are_differences_of_log_densities() -> None:
    random = np.random.default_rng(0)
    true = population(random)
    members, y = true.draw(10, random)
    means = means_of(members, y, 10)
    spread = np.sqrt(true.variances)
    wanted = np.asarray(norm.logpdf(members, means[y], spread) - norm.logpdf(members, true.means[y], spread))
    np.testing.assert_allclose(omniscient_scores(members, y, means, true), wanted.sum(axis=1), rtol=1e-9)


@pytest.mark.parametrize("per_class", [10, 20, 40])
def test_the_omniscient_attack_reaches_what_theory_says(per_class: int) -> None:
    found = []
    for seed in range(150):
        random = np.random.default_rng(seed)
        true = population(random)
        (members, y), (others, _) = true.draw(per_class, random), true.draw(per_class, random)
        means = means_of(members, y, 10)
        right = [
            (omniscient_scores(members, y, means, true) > 0).mean(),
            (omniscient_scores(others, y, means, true) <= 0).mean(),
        ]
        found.append(np.mean(right))
    assert np.mean(found) == pytest.approx(expected_accuracy(75, per_class), abs=0.01)
