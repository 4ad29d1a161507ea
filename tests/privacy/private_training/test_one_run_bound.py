"""The bound from one run: the paper's own figures, and brute force with mechanisms whose ε is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from modelkeep.core.errors import InputError
from modelkeep.privacy.private_training.one_run import guess
from modelkeep.privacy.private_training.one_run_bound import guessing_p_value, prove_epsilon


def test_the_figures_of_the_paper() -> None:
    """Steinke2023, appendix D and section 7."""
    assert prove_epsilon(canaries=1000, guesses=100, right=75, delta=1e-4) == pytest.approx(0.673, abs=1e-3)
    assert prove_epsilon(canaries=100_000, guesses=1510, right=1439, delta=1e-5) == pytest.approx(2.675, abs=2e-3)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_with_delta_the_sum_is_that_of_the_definition(epsilon: float) -> None:
    """α = max over i of P[v > W ≥ v − i] / i by enumeration, W being binomial."""
    m, r, v, delta = 30, 12, 9, 1e-3
    rate = 1 / (1 + math.exp(-epsilon))
    chance = [math.comb(r, k) * rate**k * (1 - rate) ** (r - k) for k in range(r + 1)]
    alpha = max(sum(chance[v - i : v]) / i for i in range(1, v + 1))
    wanted = sum(chance[v:]) + 2 * m * delta * alpha
    assert guessing_p_value(epsilon, delta, canaries=m, guesses=r, right=v) == pytest.approx(min(1, wanted), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 3.0])
def test_randomised_response_is_bounded_at_the_confidence_and_nearly_tightly(epsilon: float) -> None:
    """2,000 runs of a mechanism that says of each canary the truth with the rate e^ε / (1 + e^ε)."""
    m, runs, random = 2000, 2000, np.random.default_rng(1)
    right = random.binomial(m, 1 / (1 + math.exp(-epsilon)), size=runs)
    proved = {v: prove_epsilon(canaries=m, guesses=m, right=int(v)) for v in np.unique(right)}
    bounds = np.array([proved[v] for v in right])
    wrong = int((bounds > epsilon).sum())
    assert wrong <= 0.05 * runs + 3 * math.sqrt(0.05 * 0.95 * runs), "it holds in 95 % of the runs"
    assert wrong >= 0.02 * runs, "and is not much more careful than that"
    assert np.median(bounds) >= epsilon - 0.25


def test_a_mechanism_that_fails_with_probability_delta_is_bounded() -> None:
    """With probability δ per canary the mechanism tells the truth outright: (ε, δ)-private, and ε = 0 would be wrong
    about it if δ were left out."""
    m, delta, runs, random = 400, 0.02, 500, np.random.default_rng(2)
    right = random.binomial(m, 0.5 + 0.5 * delta, size=runs)
    proved = {v: prove_epsilon(canaries=m, guesses=m, right=int(v), delta=delta) for v in np.unique(right)}
    assert np.mean([proved[v] > 0 for v in right]) <= 0.05


def test_to_take_the_best_number_of_guesses_keeps_the_confidence() -> None:
    """A Gaussian score with the shift 1 has no finite ε at δ = 0, a coin has ε = 0: the best of six bounds is wrong
    about the coin in at most 5 % of the runs."""
    generator = torch.Generator().manual_seed(0)
    wrong, strong = 0, []
    for run in range(400):
        inside = torch.rand(200, generator=generator) < 0.5
        noise = torch.randn(200, generator=generator)
        wrong += max(each.epsilon for each in guess(noise, inside)) > 0
        if run < 50:
            strong.append(max(each.epsilon for each in guess(noise + 2 * inside, inside)))
    assert wrong <= 0.05 * 400 + 3 * math.sqrt(0.05 * 0.95 * 400)
    assert np.median(strong) > 0.8


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InputError, match="Right guesses"):
        prove_epsilon(canaries=10, guesses=20, right=5)
