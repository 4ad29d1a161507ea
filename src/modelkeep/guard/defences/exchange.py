"""Linear programmes over the polytope of section 3.2, for any costs, in whole units: no solver, no tolerance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from modelkeep.guard.grid import ONE
from modelkeep.guard.machine_code import compile_loop

Vector = NDArray[np.float64]


@compile_loop
def cheapest(y: NDArray[np.int32], top: int, moves: int, cost: Vector) -> Vector:
    """The point of P, whole units, where `cost` is least: at most `moves` units change place.

    Given the top's value M it is a greedy exchange; its least cost is convex in M, so bisection finds the best M.
    """
    order = np.argsort(cost)
    out = np.empty(len(y))
    low, high = 0, min(ONE, y[top] + moves)
    while low < high:
        middle = (low + high) // 2
        here = _exchange(y, top, moves, cost, order, middle, out)
        if not here < np.inf or _exchange(y, top, moves, cost, order, middle + 1, out) < here:
            low = middle + 1
        else:
            high = middle
    _exchange(y, top, moves, cost, order, low, out)
    return out


@compile_loop
def _exchange(
    y: NDArray[np.int32], top: int, moves: int, cost: Vector, order: NDArray[np.int64], value: int, out: Vector
) -> float:
    """The least cost where the top is `value`, with the point in `out`; infinity where no point of P has it."""
    rise = value - y[top]  # what the others must give in all
    given = taken = 0
    for k in range(len(y)):
        out[k] = min(y[k], value - 1)  # the top stands strictly above: this much they must give
        if k != top:
            given += y[k] - int(out[k])
    out[top] = value
    first, last = 0, len(y) - 1
    while True:
        while first < len(y) and (order[first] == top or out[order[first]] >= value - 1):
            first += 1
        while last >= 0 and (order[last] == top or out[order[last]] <= 0):
            last -= 1
        if given - taken > rise:  # the cheapest take what is left over
            if first == len(y):
                return np.inf
            k = order[first]
            amount = min(given - taken - rise, value - 1 - int(out[k]))
            out[k] += amount
            taken += amount
        elif given - taken < rise:  # the dearest give what is missing
            if last < 0:
                return np.inf
            k = order[last]
            amount = min(rise - given + taken, int(out[k]))
            out[k] -= amount
            given += amount
        else:
            spare = moves - max(given, taken)
            if spare < 0:
                return np.inf
            if spare == 0 or first >= last or cost[order[first]] >= cost[order[last]]:
                return float(cost @ out)
            amount = min(spare, value - 1 - int(out[order[first]]), int(out[order[last]]))
            out[order[first]] += amount
            out[order[last]] -= amount
            given += amount
            taken += amount
