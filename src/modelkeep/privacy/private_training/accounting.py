"""Accounting: the ε of a private training, and the noise that a wanted ε needs.

The accountants are Opacus's: composing the privacy loss of a subsampled Gaussian is delicate, and theirs are reviewed.
"""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from modelkeep.core.errors import InputError, MissingExtra

Accountant = Literal["prv", "rdp"]
_LOWEST_NOISE, _HIGHEST_NOISE = 0.05, 2.0**12
# The Rényi orders of Google's accountant and a few more: any order gives a bound, and the best of them is taken.
_ORDERS = [1 + x / 100 for x in range(1, 10)] + [1 + x / 10 for x in range(1, 100)] + [*range(11, 64), 128, 256, 512]


@lru_cache(maxsize=256)  # composing takes seconds, and the shadows of an attack all ask for the same
def epsilon_of(*, noise: float, rate: float, steps: int, delta: float, accountant: Accountant = "prv") -> float:
    """An upper bound on ε after `steps` of Poisson sampling with `rate` and Gaussian noise of `noise` · clip.

    "prv" composes the privacy loss numerically (Gopi2021) and is tight to 0.01; "rdp" uses Rényi divergences
    (Mironov2019) and is a little looser.
    """
    if not 0 < rate <= 1 or steps < 1 or not 0 < delta < 1:
        raise InputError(f"A rate and a delta lie between 0 and 1, steps are at least 1. Got {rate}, {delta}, {steps}.")
    if noise <= 0:
        return math.inf
    accountants = _accountants()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # They warn that other orders might be tighter, and at a rate of 1 of a logarithm of 0 that they then handle.
        warnings.simplefilter("ignore")
        if accountant == "prv":
            book = accountants.PRVAccountant()
            book.history = [(noise, rate, steps)]
            return float(book.get_epsilon(delta=delta))
        book = accountants.RDPAccountant()
        book.history = [(noise, rate, steps)]
        return float(book.get_epsilon(delta=delta, alphas=_ORDERS))


@lru_cache(maxsize=256)
def noise_for(epsilon: float, *, rate: float, steps: int, delta: float, accountant: Accountant = "prv") -> float:
    """The smallest noise multiplier, to a thousandth of itself, whose ε is at most `epsilon`."""
    if not 0 < epsilon < math.inf:
        raise InputError(f"ε must be a number above 0. Got {epsilon}.")

    def enough(noise: float) -> bool:
        return epsilon_of(noise=noise, rate=rate, steps=steps, delta=delta, accountant=accountant) <= epsilon

    low, high = _LOWEST_NOISE, 1.0
    while not enough(high):
        low, high = high, 2 * high
        if high > _HIGHEST_NOISE:
            raise InputError(
                f"No reasonable noise gives ε = {epsilon} at δ = {delta} in {steps} steps with a rate of {rate:.3g}. "
                "Take fewer steps, smaller batches or a larger ε."
            )
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def advantage_bounds(epsilon: float, delta: float) -> tuple[float, float]:
    """What the advantage of any membership attack cannot exceed: e^ε − 1 (Yeom2018; vacuous from ln 2 on), and the
    tight (e^ε − 1 + 2δ)/(e^ε + 1) (Humphries2023).

    >>> [round(bound, 3) for bound in advantage_bounds(0.25, 0.0)]
    [0.284, 0.124]
    """
    growth = math.exp(min(epsilon, 700.0))
    return min(1.0, growth - 1), min(1.0, (growth - 1 + 2 * delta) / (growth + 1))


def _accountants() -> Any:
    try:
        from opacus import accountants
    except ImportError as error:
        raise MissingExtra("private", "opacus", "Accounting for differential privacy") from error
    return accountants
