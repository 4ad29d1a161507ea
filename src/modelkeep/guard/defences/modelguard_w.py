"""ModelGuard-W: the answer within the constraints that a thief would learn least from, if it took it at its word.

Tang2024, equation 9, is a linear programme per query. It is solved here exactly and in whole units, without a solver
of linear programmes: thousands of times faster, and no answer depends on a tolerance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.method import declare
from modelkeep.guard.defence import Defence, epsilon_setting
from modelkeep.guard.grid import ONE, Predictions, Units
from modelkeep.guard.machine_code import compile_loop


@declare("guard", "modelguard-w", access="scores", paper="Tang2024, equation 9", extra="guard", kw_only=False)
class ModelGuardW(Defence):
    """Answers as misleadingly as the budget allows.

    Minimises Σ ŷ log y subject to the ℓ1 budget, the top-1 label and the simplex.

    The label stays on top by at least one unit. A confidence of no unit counts as half of one in the logarithm, so that
    the programme is always bounded. The clean prediction is always feasible, so an answer always exists.

    >>> from modelkeep.guard.grid import confidences, snap
    >>> confidences(ModelGuardW(epsilon=0.5)(snap(np.array([[0.75, 0.125, 0.0625, 0.0625]]))))
    array([[0.5   , 0.125 , 0.3125, 0.0625]], dtype=float32)
    """

    epsilon: float = epsilon_setting(1.0)
    stored_name = "modelkeep.guard.defences.modelguard_w.ModelGuardW"

    def __call__(self, predictions: Predictions, state: Any = None, inputs: torch.Tensor | None = None) -> Units:
        answers = np.empty_like(predictions.units)
        solve(predictions.units, predictions.labels, predictions.allowed(self.epsilon), ONE, answers)
        return answers


@compile_loop
def solve(
    units: NDArray[np.integer],
    labels: NDArray[np.int64],
    allowed: NDArray[np.int64],
    one: int,
    answers: NDArray[np.integer],
) -> None:
    """Fill `answers` with optimal points of equation 9 for rows of whole units that sum to `one`.

    Fix the top value M. The other classes lie in [0, U], U = M − 1, and sum to one − M. What is above U comes down, and
    the rest of the budget moves from the largest of them, which are emptied, to the smallest, which are filled to U:
    their costs log y have the same order. If both ends meet, the budget is not needed in full and the smallest are
    filled in turn. The least cost is convex in M, so M is found by bisection on its slope.
    """
    others = units.shape[1] - 1
    order = np.empty(others + 1, np.int64)
    spare = np.empty(others + 1, np.int64)
    a = np.empty(others, np.int64)  # the other classes, ascending
    cost = np.empty(others)
    sums = np.zeros(others + 1, np.int64)  # sums[i] of the i smallest
    costs = np.zeros(others + 1)
    x = np.empty(others, np.int64)
    best = np.empty(others, np.int64)
    for row in range(len(units)):
        top = labels[row]
        order, spare = _sort(units[row], one, order, spare)  # the top comes last, being strict
        for k in range(others):
            a[k] = units[row, order[k]]
            cost[k] = np.log(max(a[k], 0.5) / one)
            sums[k + 1] = sums[k] + a[k]
            costs[k + 1] = costs[k] + cost[k]
        y = units[row, top]
        price = np.log(y / one)
        half = allowed[row] // 2  # what goes up comes down, so half of the ℓ1 distance
        low = max((one + 2 * others) // (others + 1), y - half)
        high = min(one, y + half)
        while low < high:
            middle = (low + high) // 2
            if _slope(middle, y, half, one, a, cost, sums, costs) + price >= 0:
                high = middle
            else:
                low = middle + 1
        least = price * low + _fill(low, y, half, one, a, cost, sums, best)
        m = low
        # The slope changes its sign at `low` or between it and the whole number below.
        if _feasible(low - 1, y, half, a, sums):
            other = price * (low - 1) + _fill(low - 1, y, half, one, a, cost, sums, x)
            if other < least:
                best, x, m = x, best, low - 1
        answers[row, top] = m
        for k in range(others):
            answers[row, order[k]] = best[k]


@compile_loop
def _sort(
    values: NDArray[np.integer], largest: int, order: NDArray[np.int64], spare: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(the order that sorts `values`, equals by index; scratch space): a radix sort, five bits at a time."""
    place = np.empty(33, np.int64)
    for k in range(len(values)):
        order[k] = k
    shift = 0
    while largest >> shift > 0:
        place[:] = 0
        for k in range(len(values)):
            place[((values[k] >> shift) & 31) + 1] += 1
        for digit in range(31):
            place[digit + 1] += place[digit]
        for k in range(len(values)):
            digit = (values[order[k]] >> shift) & 31
            spare[place[digit]] = order[k]
            place[digit] += 1
        order, spare = spare, order
        shift += 5
    return order, spare


@compile_loop
def _count_unclipped(cap: int, a: NDArray[np.int64]) -> int:
    """How many of `a` are at most `cap`."""
    low, high = 0, len(a)
    while low < high:
        middle = (low + high) // 2
        if a[middle] <= cap:
            low = middle + 1
        else:
            high = middle
    return low


@compile_loop
def _feasible(m: int, y: int, half: int, a: NDArray[np.int64], sums: NDArray[np.int64]) -> bool:
    """Whether the top can be `m`: the others have room, and what must come down fits into the budget."""
    free = _count_unclipped(m - 1, a)
    clipped = sums[-1] - sums[free] - (len(a) - free) * (m - 1)
    room = free * (m - 1) - sums[free]
    return m - y <= half and clipped + y - m <= half and clipped + y - m <= room


@compile_loop
def _ends(m: int, y: int, half: int, a: NDArray[np.int64], sums: NDArray[np.int64]) -> tuple[int, int, int]:
    """(i, j, free): i is filled in part and those below in full, j is emptied in part and those above in full.

    Meant for a top just above `m`: where the position of an end is a tie, as it is for the slope to the right.
    """
    cap = m - 1
    free = _count_unclipped(cap, a)
    others = len(a)
    up = half - max(m - y, 0)
    down = up + m - y
    # The first i such that filling 0..i takes all that goes up.
    i, end = 0, free
    while i < end:
        middle = (i + end) // 2
        if (middle + 1) * cap - sums[middle + 1] >= up:
            end = middle
        else:
            i = middle + 1
    if i == free:
        i = others  # there is room for more than the budget moves
    # The last j such that emptying j.. and clipping the rest yields all that comes down.
    j, end = -1, others - 1
    while j < end:
        middle = (j + end + 1) // 2
        clipped = max(middle - free, 0)
        yields = sums[others] - sums[middle] + (sums[middle] - sums[middle - clipped]) - clipped * cap
        grows = clipped > 0 or m < y  # just above m less is yielded, or more must be
        if yields > down or (yields == down and not grows):
            j = middle
        else:
            end = middle - 1
    return i, j, free


@compile_loop
def _slope(
    m: int,
    y: int,
    half: int,
    one: int,
    a: NDArray[np.int64],
    cost: NDArray[np.float64],
    sums: NDArray[np.int64],
    costs: NDArray[np.float64],
) -> float:
    """How the others' least cost changes with the top value, just above `m`; below all numbers where m is too low."""
    if not _feasible(m, y, half, a, sums):
        return -np.inf
    i, j, free = _ends(m, y, half, a, sums)
    if i >= j:  # they meet: 0..i−1 are full, i takes the rest
        i = max(-(-(one - m) // (m - 1)) - 1, 0)
        return float(costs[i] - (i + 1) * cost[i])
    clipped = max(j - free, 0)
    up = -1 if m >= y else 0  # what goes up among the others shrinks by what the top takes
    filled = costs[i] + (up - i) * cost[i]
    emptied = costs[j] - costs[j - clipped] - (1 + up + clipped) * cost[j]
    return float(filled + emptied)


@compile_loop
def _fill(
    m: int,
    y: int,
    half: int,
    one: int,
    a: NDArray[np.int64],
    cost: NDArray[np.float64],
    sums: NDArray[np.int64],
    x: NDArray[np.int64],
) -> float:
    """Fill `x` with the best values of the others for the top value `m`; their cost."""
    cap = m - 1
    i, j, _ = _ends(m, y, half, a, sums)
    if i >= j:
        i = max(-(-(one - m) // cap) - 1, 0)
        j = i
    left = one - m
    for k in range(len(a)):
        x[k] = cap if k < i else (0 if k > j else min(a[k], cap))
    if i < j:
        x[i] = a[i] + half - max(m - y, 0) - (i * cap - sums[i])
    x[j] = 0
    total = 0.0
    for k in range(len(a)):
        left -= x[k]
        total += cost[k] * x[k]
    x[j] = left
    return float(total + cost[j] * left)
