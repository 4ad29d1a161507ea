"""Noise: how far an answer is from the exact one, estimated before anything is encrypted.

Standard deviations in one slot, in units of the values, by the usual heuristic (Costache2023): the noise of each
operation is independent, and rounding errors are uniform. A slot is the sum of n coefficients times roots of unity, of
which the real part counts: the coefficients' deviation times sqrt(n / 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from modelkeep.encrypt.ckks.affine import Affine
from modelkeep.encrypt.ckks.packing import Diagonals, Gather
from modelkeep.encrypt.ckks.parameters import Parameters
from modelkeep.encrypt.ckks.ranges import Range

SIGMA = 3.2  # deviation of the error of a fresh ciphertext, by the standard
WORST_SLOT = 0.4  # two deviations of that one slot, where LARGEST of them are counted for all
LARGEST = 5.0  # deviations; of 10,000 normal numbers the largest is beyond this once in 170 times


class Noise:
    """The noise that each operation brings under these parameters."""

    def __init__(self, parameters: Parameters) -> None:
        n, scale = parameters.degree, parameters.scale
        slot = math.sqrt(n / 2) / scale
        self.encoding = slot / math.sqrt(12)
        self.fresh = math.hypot(SIGMA * slot, self.encoding)
        # Rounding both parts of a ciphertext; the second is multiplied by the secret, of which two thirds are not zero.
        self.rescaling = slot * math.sqrt((1 + 2 * n / 3) / 12)
        # Each remaining prime is a digit of the key switch: digit times key error, divided by the special prime. SEAL
        # takes digits from 0 on, so their mean is half a prime: in the slot whose root of unity is nearest to 1 that
        # mean weighs sqrt(12 n) / pi times as much as all the rest (measured: 35 deviations in slot 1, n = 8192).
        worst = 1 + WORST_SLOT * math.sqrt(12 * n) / math.pi
        special = float(2 ** parameters.primes[-1])
        digits = [2.0**bits for bits in parameters.primes[:-1]]
        self._switch_by_digits = [
            worst
            * slot
            * SIGMA
            * math.sqrt(n / 12 * sum(digit**2 for digit in digits[: len(digits) - level]))
            / special
            for level in range(len(digits))
        ]

    def switching(self, level: int) -> float:
        """The noise of one rotation, or of the relinearisation after a product, at a level."""
        return math.hypot(self._switch_by_digits[level], self.rescaling)


def predict_single(
    parameters: Parameters, maps: Sequence[Affine], ranges: Sequence[Range], first: Gather, later: Sequence[Diagonals]
) -> float:
    """The deviation of one answer in the packing of one sample."""
    noise = Noise(parameters)
    error = _after_sums(noise, _product(noise, maps[0], ranges[0], noise.fresh), first.taps, level=1)
    for position, layer in enumerate(later, start=1):
        error = _square(noise, ranges[position - 1].value, error)
        error = math.hypot(error, noise.switching(2 * position))  # the baby steps
        error = _product(noise, maps[position], ranges[position], error)
        error = _after_sums(noise, error, 2 ** len(layer.sums), level=2 * position + 1)
    return error


def predict_packed(parameters: Parameters, maps: Sequence[Affine], ranges: Sequence[Range]) -> float:
    """The deviation of one answer in the packing of many samples, where nothing is rotated."""
    noise = Noise(parameters)
    error = math.hypot(_product(noise, maps[0], ranges[0], noise.fresh), noise.rescaling)
    for position in range(1, len(maps)):
        error = _square(noise, ranges[position - 1].value, error)
        error = math.hypot(_product(noise, maps[position], ranges[position], error), noise.rescaling)
    return error


def _product(noise: Noise, affine: Affine, seen: Range, error: float) -> float:
    """After the products of a map with its weights as plaintexts, which are rounded."""
    weights = float(np.linalg.norm(affine.weight, axis=1).max())
    return math.hypot(weights * error, seen.norm * noise.encoding)


def _after_sums(noise: Noise, error: float, summands: int, level: int) -> float:
    """After a rescaling, and rotations that sum so many slots with the noise of each."""
    own = summands * noise.rescaling**2 + (summands - 1) * noise.switching(level) ** 2
    return math.sqrt(error**2 + own)


def _square(noise: Noise, value: float, error: float) -> float:
    """After a square; the relinearisation comes before the rescaling, which divides its noise."""
    return math.hypot(2 * value * error, noise.rescaling)
