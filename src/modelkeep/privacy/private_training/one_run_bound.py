"""The lower bound on ε that right guesses about canaries prove (Steinke2023, theorem 5.2)."""

from __future__ import annotations

import math

import numpy as np

from modelkeep.core.errors import InputError

_LARGEST = 50.0
"""No audit proves more: from about m = e^50 canaries on one could."""


def guessing_p_value(epsilon: float, delta: float, *, canaries: int, guesses: int, right: int) -> float:
    """How likely an (ε, δ)-private training lets `right` or more of `guesses` be right, at most.

    Each of `canaries` examples was in or out by a fair coin of its own. With δ = 0 the number of right guesses is at
    most binomial with the rate e^ε / (1 + e^ε), however the guesses depend on each other; δ adds 2mδ times the largest
    mean of the probabilities just below `right`.

    >>> round(guessing_p_value(0.0, 0.0, canaries=10, guesses=10, right=9), 4)
    0.0107
    """
    from scipy.stats import binom

    if not 0 <= right <= guesses <= canaries or guesses < 1:
        raise InputError(f"Right guesses ≤ guesses ≤ canaries. Got {right}, {guesses} and {canaries}.")
    rate = 1 / (1 + math.exp(-epsilon))
    beta = float(binom.sf(right - 1, guesses, rate))
    if delta == 0 or right == 0:
        return min(1.0, beta)
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, rate))
    alpha = max(float(total) / i for i, total in enumerate(below, start=1))
    return min(1.0, beta + 2 * canaries * delta * alpha)


def prove_epsilon(*, canaries: int, guesses: int, right: int, delta: float = 0.0, confidence: float = 0.95) -> float:
    """The ε that the training exceeds at the stated confidence; 0 where nothing is proved.

    >>> round(prove_epsilon(canaries=1000, guesses=1000, right=731), 2)
    0.88
    """

    def refuted(epsilon: float) -> bool:
        found = guessing_p_value(epsilon, delta, canaries=canaries, guesses=guesses, right=right)
        return found < 1 - confidence

    low, high = 0.0, _LARGEST
    if not refuted(low):
        return 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
