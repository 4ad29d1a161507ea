"""A point near a prediction that only the holder of a secret could have drawn."""

from __future__ import annotations

import hmac

import numpy as np
from numpy.typing import NDArray

from modelkeep.guard.defences.segment import move_toward
from modelkeep.guard.grid import ONE, Predictions


def keyed_point(secret: bytes, units: NDArray[np.int32], label: int, position: int, allowed: int) -> NDArray[np.int32]:
    """A point within half of `allowed` of `units: (classes,)`, with the same top-1 label.

    It lies in a direction that HMAC-SHA256(secret, label, position) draws: towards a few random classes, because a
    thief could guess and undo a step towards all of them. Half of the budget stays unused, so that float noise cannot
    push the query out of reach of its own centroid. It is never the prediction itself if one unit can move at all.
    """
    stream = b"".join(
        hmac.digest(secret, f"{label} {position} {block}".encode(), "sha256") for block in range(len(units) // 8 + 2)
    )
    drawn = np.frombuffer(stream, dtype="<u4")[: len(units) + 2] / 2.0**32
    few = drawn[:-2]
    for _ in range(3):  # the eighth power, by products alone, which are the same on every machine
        few = few * few
    few[label] = few.max() * (1 + drawn[-2])
    reach = allowed // 4 + int(drawn[-1] * (allowed // 4))
    here = Predictions(units[None], np.array([label]), np.zeros(1, np.int64))
    point: NDArray[np.int32] = move_toward(here, few[None], reach / ONE)[0]
    if (point == units).all() and allowed >= 2:  # all steps were rounded to none
        others = units.copy()
        others[label] = -1
        step = 1 if units[label] < ONE else -1  # the top may always rise at the cost of the largest other
        point[label] += step
        point[others.argmax()] -= step
    return point
