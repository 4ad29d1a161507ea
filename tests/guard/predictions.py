"""Predictions as networks make them, and worse: what the properties of the grid and of the defences are tried on."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Raw = NDArray[np.float32] | NDArray[np.float64]


def _one(draw: st.DrawFn, classes: int) -> NDArray[np.float64]:
    kind = draw(st.sampled_from(["weights", "ties", "one-hot", "near-tie", "uniform", "tiny", "softmax"]))
    small = st.integers(0, 3)
    weights = np.array(draw(st.lists(st.floats(0, 1, width=32), min_size=classes, max_size=classes)))
    if kind == "ties":
        weights = np.array(draw(st.lists(small, min_size=classes, max_size=classes)), dtype=np.float64)
    if kind == "uniform":
        weights = np.ones(classes)
    if kind in ("one-hot", "tiny"):
        weights = np.full(classes, 0.0 if kind == "one-hot" else draw(st.sampled_from([1e-300, 1e-12, 3e-8])))
        weights[draw(st.integers(0, classes - 1))] = 1.0
    if kind == "near-tie":
        weights[draw(st.integers(0, classes - 1))] = weights.max() + draw(st.sampled_from([0.0, 1e-16, 3e-8, 2.0**-25]))
    if kind == "softmax":
        weights = np.exp(20 * (weights - weights.max()))
    if weights.sum() == 0:
        weights[0] = 1.0
    normalised: NDArray[np.float64] = weights / weights.sum()
    return normalised


@st.composite
def raw_predictions(draw: st.DrawFn, rows: int = 6, classes: int = 9) -> Raw:
    """Up to `rows` predictions over 2 to `classes` classes, in float32 or float64, some a little off the simplex."""
    width = draw(st.integers(2, classes))
    table = np.array([_one(draw, width) for _ in range(draw(st.integers(1, rows)))])
    table *= draw(st.sampled_from([1.0, 1.0, 1 + 2e-7, 0.995, 1.005]))
    return table.astype(draw(st.sampled_from([np.float32, np.float64])))


def exactly(values: NDArray[np.floating] | NDArray[np.integer], one: int = 1) -> list[Fraction]:
    """A row as rational numbers, without any rounding; units become confidences if `one` is the grid's."""
    return [Fraction(value.item()) / one for value in values]


def exact_distance(ours: list[Fraction], theirs: list[Fraction]) -> Fraction:
    """The ℓ1 distance."""
    return sum((abs(a - b) for a, b in zip(ours, theirs, strict=True)), Fraction(0))
