"""The answer that turns a thief's gradient most: MAD's programme, solved on the Gram matrix of the gradients.

With K = G Gᵀ the angle between Gᵀŷ and Gᵀy has cos = ŷᵀK y / √(ŷᵀKŷ · yᵀKy), to be made small over the polytope P of
section 3.2. Which problem that is depends on whether some answer of P turns the gradient by more than a right angle:

- Then Gᵀŷ nearest to −Gᵀy in direction is the projection of −Gᵀy on a convex cone: a convex problem, solved by Lawson
  and Hanson's active set with the vertices of P as columns, found one at a time by a linear programme.
- Else cos is quasi-concave on P (where it is ≥ t ≥ 0, ŷᵀK y ≥ t‖Gᵀŷ‖ is convex), so the least is at a vertex. There
  are exponentially many: for few classes all are tried, for many a linear programme leads from vertex to vertex.

Everything is counted in units of the grid.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from modelkeep.guard.compiled import compiled
from modelkeep.guard.defences.vertices import best_vertex
from modelkeep.guard.grid import ONE, Units

Vector = NDArray[np.float64]
NONE = 1e-9  # a gain this small, of a cosine, is none
STARTS = 8  # of MAD's own candidates, how many are improved


@compiled
def turn(
    units: Units,
    labels: NDArray[np.int64],
    allowed: NDArray[np.int64],
    grams: NDArray[np.float64],
    query: NDArray[np.int64],
    exact: int,
) -> Units:
    """Per row the answer within the ℓ1 distance `allowed` whose gradient turns most; `grams[query[row]]` is its Gram.

    Up to `exact` classes the answer is optimal up to the grid; above it is where the gradient turns by a right angle
    or more, and otherwise a vertex that no linear step improves.
    """
    answers = units.copy()
    classes = units.shape[1]
    for row in range(len(units)):
        # Taking fractions of units off the others moves each by less than one, and the top by less than their number.
        moves = (allowed[row] - 2 * classes) // 2
        y, top, gram = units[row], labels[row], grams[query[row]]
        if moves < 1:
            continue
        aim = gram @ y.astype(np.float64)
        if not y.astype(np.float64) @ aim > 0:  # the surrogate learns nothing from this query: there is no angle
            continue
        lowest = _linear(y, top, moves, aim)
        if lowest @ aim < 0:
            found = _projection(y, top, moves, gram, aim, lowest)
        elif classes <= exact:
            found = best_vertex(y, top, moves, gram, aim)
        else:
            found = _descent(y, top, moves, gram, aim, lowest)
        rest = ONE
        for k in range(classes):
            if k != top:
                answers[row, k] = int(found[k])
                rest -= answers[row, k]
        answers[row, top] = rest
    return answers


@compiled
def _linear(y: NDArray[np.int32], top: int, moves: int, cost: Vector) -> Vector:
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


@compiled
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


@compiled
def _descent(
    y: NDArray[np.int32], top: int, moves: int, gram: NDArray[np.float64], aim: Vector, lowest: Vector
) -> Vector:
    """The best of a few vertices where no linear step turns the gradient further.

    The ways down start at `lowest` and at the best of MAD's own candidates, (1 − α) y + α e_k with the largest α that
    P allows.
    """
    own = y.astype(np.float64)
    size = own @ aim
    share, cosines = np.empty(len(y)), np.empty(len(y))
    for k in range(len(y)):
        share[k] = moves / max(ONE - y[k], moves)
        if k != top:
            share[k] = min(share[k], (y[top] - y[k] - 1) / (ONE + y[top] - y[k]))
        keep, add = 1 - share[k], share[k] * ONE
        square = keep * keep * size + 2 * keep * add * aim[k] + add * add * gram[k, k]
        cosines[k] = (keep * size + add * aim[k]) / np.sqrt(max(square, 1e-12 * size))
    best, least = lowest, np.inf
    starts = np.argsort(cosines)[:STARTS]
    for number in range(len(starts) + 1):
        point = lowest
        if number < len(starts):
            k = starts[number]
            point = own * (1 - share[k])
            point[k] += share[k] * ONE
        cosine = np.inf
        while True:
            image = gram @ point
            square, along = point @ image, point @ aim
            before, cosine = cosine, along / np.sqrt(max(square, 1e-12 * size))
            if cosine < least:
                best, least = point, cosine
            if cosine >= before - NONE * np.sqrt(size):
                break
            # Along the gradient of cos, up to a factor. Downhill, a quasi-concave function falls all the way.
            point = _linear(y, top, moves, square * aim - along * image)
    return best


@compiled
def _projection(
    y: NDArray[np.int32], top: int, moves: int, gram: NDArray[np.float64], aim: Vector, lowest: Vector
) -> Vector:
    """The point of P whose gradient is nearest to −Gᵀy in direction: Lawson and Hanson's non-negative least squares."""
    classes = len(y)
    size = y.astype(np.float64) @ aim
    columns = np.empty((classes + 1, classes))
    weights = np.zeros(classes + 1)
    count = 0
    slope, vertex = aim.copy(), lowest
    for _ in range(4 * classes):
        if vertex @ slope > -NONE * size or count == classes:
            break
        columns[count], weights[count] = vertex, 0.0
        count += 1
        while count > 0:
            used = columns[:count]
            normal = used @ gram @ used.T
            for i in range(count):
                normal[i, i] *= 1 + 1e-13  # a column that depends on others does no harm
            wanted = np.linalg.solve(normal, -(used @ aim))
            step, leaves = 1.0, -1
            for i in range(count):
                if wanted[i] <= 0 and weights[i] < step * (weights[i] - wanted[i]):
                    step, leaves = weights[i] / (weights[i] - wanted[i]), i
            weights[:count] += step * (wanted - weights[:count])
            if leaves < 0:
                break
            count -= 1
            columns[leaves], weights[leaves] = columns[count].copy(), weights[count]
        slope = aim + gram @ (weights[:count] @ columns[:count])
        vertex = _linear(y, top, moves, slope)
    found: Vector = weights[:count] @ columns[:count] / weights[:count].sum()
    return found
