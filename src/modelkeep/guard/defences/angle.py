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

from modelkeep.guard.defences.exchange import cheapest
from modelkeep.guard.defences.vertices import best_vertex
from modelkeep.guard.grid import ONE, Units
from modelkeep.guard.machine_code import compile_loop

Vector = NDArray[np.float64]
NONE = 1e-9  # a gain this small, of a cosine, is none
ROUNDING = 1e-12  # a squared length below this share of the longest gradient's is none
_STARTS = 8  # of MAD's own candidates, how many are improved


@compile_loop
def turn(
    units: Units, labels: NDArray[np.int64], allowed: NDArray[np.int64], gram: NDArray[np.float64], exact: int
) -> Units:
    """Per row the answer to one query, `gram` its Gram matrix, within the ℓ1 distance `allowed` that turns most.

    Up to `exact` classes the answer is optimal up to the grid; above it is where the gradient turns by a right angle
    or more, and otherwise a vertex that no linear step improves.
    """
    answers = units.copy()
    classes = units.shape[1]
    for row in range(len(units)):
        # Taking fractions of units off the others moves each by less than one, and the top by less than their number.
        moves = (allowed[row] - 2 * classes) // 2
        y, top = units[row], labels[row]
        if moves < 1:
            continue
        aim = gram @ y.astype(np.float64)
        size = y.astype(np.float64) @ aim
        # Where the surrogate would learn nothing from the clean answer there is no angle, only rounding.
        if not size > ROUNDING * ONE * ONE * np.diag(gram).max():
            continue
        lowest = cheapest(y, top, moves, aim)
        if lowest @ aim < -NONE * size:
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


@compile_loop
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
    starts = np.argsort(cosines)[:_STARTS]
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
            point = cheapest(y, top, moves, square * aim - along * image)
    return best


@compile_loop
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
            wanted = _eliminate(used, gram, -(used @ aim))
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
        vertex = cheapest(y, top, moves, slope)
    total = weights[:count].sum()
    if not 0 < total < np.inf:  # angles that are lost in rounding
        return lowest
    found: Vector = weights[:count] @ columns[:count] / total
    return found


@compile_loop
def _eliminate(used: NDArray[np.float64], gram: NDArray[np.float64], right: Vector) -> Vector:
    """λ with (used K usedᵀ) λ = right, by elimination: the matrix is positive definite, so in any order."""
    count = len(used)
    matrix = np.empty((count, count))
    for i in range(count):
        image = gram @ used[i]
        for j in range(count):
            matrix[i, j] = used[j] @ image
    least = 1e-13 * np.diag(matrix)
    for i in range(count):
        matrix[i, i] = max(matrix[i, i], least[i])  # a column that depends on others does no harm
        for j in range(i + 1, count):
            factor = matrix[j, i] / matrix[i, i]
            for k in range(i, count):
                matrix[j, k] -= factor * matrix[i, k]
            right[j] -= factor * right[i]
    for i in range(count - 1, -1, -1):
        for k in range(i + 1, count):
            right[i] -= matrix[i, k] * right[k]
        right[i] /= matrix[i, i]
    return right
