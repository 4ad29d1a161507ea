"""The bootstrap over examples of what several of a table's columns say together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.results import Estimate

Array = NDArray[Any]
RESAMPLES = 1000


def draw_counts(n: int, width: int, seed: int) -> Iterator[Array]:
    """How often each of `n` examples occurs in each resample, `(some, n)` at a time for rows of `width` numbers."""
    random = np.random.default_rng(seed)
    chunk = max(1, int(1e7 // max(n, width)))
    for start in range(0, RESAMPLES, chunk):
        some = min(chunk, RESAMPLES - start)
        drawn = random.integers(0, n, (some, n)) + n * np.arange(some)[:, None]
        yield np.bincount(drawn.ravel(), minlength=some * n).reshape(some, n).astype(np.float64)


def percentiles(value: float, resampled: Array, n: int, level: float = 0.95) -> Estimate:
    """The value with the interval of its resamples."""
    # Without interpolation, as a distance may be infinite.
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    return Estimate(value, float(low), float(high), n, level)
