"""The schedule of step lengths that several attacks share."""

from __future__ import annotations

import math


def cosine_length(step: int, steps: int) -> float:
    """The length of a step as a share of the first: it falls to a hundredth along a cosine.

    >>> [round(cosine_length(step, 4), 3) for step in range(4)]
    [1.0, 0.855, 0.505, 0.155]
    """
    return 0.01 + 0.99 * (1 + math.cos(math.pi * step / steps)) / 2
