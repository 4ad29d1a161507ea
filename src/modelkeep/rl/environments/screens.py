"""Shrink screens to what an agent sees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class ScreenShrinker:
    """Screens of one size to a smaller one: a pixel becomes the mean over the area that it covers.

    >>> ScreenShrinker((2, 4), (1, 2))(np.array([[[0, 8, 1, 1], [0, 8, 1, 3]]], np.uint8))
    array([[[4, 2]]], dtype=uint8)
    """

    def __init__(self, size: tuple[int, int], to: tuple[int, int]) -> None:
        self._rows, self._columns = _cover(size[0], to[0]), _cover(size[1], to[1]).T.copy()

    def __call__(self, screens: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """`(…, height, width)` → `(…, height, width)`, contiguous."""
        shrunk: NDArray[np.float32] = self._rows @ screens.astype(np.float32) @ self._columns
        return np.rint(shrunk).astype(np.uint8)


def _cover(length: int, to: int) -> NDArray[np.float32]:
    """What share of each new pixel each old one is: `(to, length)`, the rows sum to 1."""
    ends = np.arange(1, to + 1)[:, None] * length / to
    old = np.arange(length)
    covered = np.minimum(ends, old + 1) - np.maximum(ends - length / to, old)
    return (covered.clip(0) * to / length).astype(np.float32)
