"""Packings give the matrix product in every slot, by brute force on numbers in the clear."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkeep.encrypt.ckks.packing import diagonals, gather, power_above
from modelkeep.encrypt.ckks.scheme import Floats

SLOTS = 64
sizes = st.integers(1, 20)


def rotate(values: Floats, step: int) -> Floats:
    return np.roll(values, -step)


def whole(result: Floats, period: int) -> Floats:
    """What every slot must hold: the result, zeros up to the period, again and again."""
    padded = np.zeros(period)
    padded[: len(result)] = result
    return np.tile(padded, SLOTS // period)


@settings(max_examples=60, deadline=None)
@given(rows=sizes, columns=sizes, density=st.floats(0.1, 1.0), seed=st.integers(0, 99))
def test_a_first_layer_by_gathering(rows: int, columns: int, density: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    pattern = random.random((rows, columns)) < density
    weight, x = random.normal(size=(rows, columns)) * pattern, random.normal(size=columns)
    packing = gather(pattern, SLOTS)
    factors = packing.factors(weight)
    total = (packing.place(x, SLOTS) * np.tile(factors, (1, SLOTS // factors.shape[1]))).sum(axis=0)
    for step in packing.steps:
        total = total + rotate(total, step)
    np.testing.assert_allclose(total, whole(weight @ x, packing.period), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(rows=sizes, columns=sizes, longer=st.integers(0, 1), seed=st.integers(0, 99))
def test_a_later_layer_by_diagonals(rows: int, columns: int, longer: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    weight, x = random.normal(size=(rows, columns)), random.normal(size=columns)
    period = power_above(columns) << longer
    packing = diagonals(weight, period)
    vector, total = whole(x, period), np.zeros(SLOTS)
    for group in range(packing.groups):
        inner = np.zeros(SLOTS)
        for b, diagonal in enumerate(packing.values[group * packing.baby : (group + 1) * packing.baby]):
            inner += np.tile(diagonal, SLOTS // len(diagonal)) * rotate(vector, b)
        total += rotate(inner, group * packing.baby)
    for step in packing.sums:
        total = total + rotate(total, step)
    np.testing.assert_allclose(total, whole(weight @ x, packing.period), atol=1e-12)


def test_the_rotations_of_64_32_10() -> None:
    """The two layers of the digits take 6 and 7 rotations, and one ciphertext."""
    first = gather(np.ones((32, 64), dtype=bool), 4096)
    assert (len(first.index), first.steps) == (1, (32, 64, 128, 256, 512, 1024))
    second = diagonals(np.ones((10, 32)), first.period)
    assert second.steps == (1, 2, 3, 4, 8, 12, 16)
