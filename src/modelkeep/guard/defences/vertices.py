"""All vertices of the polytope of section 3.2, tried one after the other: MAD is exact where the classes are few.

A vertex has the top at M and every other class at 0, at its clean value, or just below M, apart from at most two free
values; where the ℓ1 bound is tight the units given and those taken are both `moves`, which fixes the free values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from modelkeep.guard.grid import ONE
from modelkeep.guard.machine_code import compile_loop

Vector = NDArray[np.float64]
ZERO, CLEAN, RAISED, LOWERED = 0, 1, 2, 3  # RAISED and LOWERED: to just below the top
SLACK = 1e-6  # of a unit: the rounding of float64


@compile_loop
def best_vertex(y: NDArray[np.int32], top: int, moves: int, gram: NDArray[np.float64], aim: Vector) -> Vector:
    """The vertex of P whose gradient makes the largest angle with the clean one's; `aim` is `gram @ y`."""
    classes = len(y)
    others = np.array([k for k in range(classes) if k != top])
    state = np.empty(classes, np.int64)
    point, best = np.empty(classes), y.astype(np.float64)
    least = np.inf
    for code in range(1 << (classes - 1)):  # the ℓ1 bound is slack: uniform on some classes, the top among them
        level = 0
        for k in others:
            state[k] = RAISED if code & 1 else ZERO
            level += code & 1
            code >>= 1
        value = (ONE + level) / (level + 1)
        for k in others:
            point[k] = value - 1 if state[k] == RAISED else 0.0
        point[top] = value
        cosine = _cosine(point, y, top, moves, gram, aim)
        if cosine < least:
            best, least = point.copy(), cosine
    for free in others:  # the bound is tight, the top and one other are free
        for code in range(4 ** (classes - 2)):
            given = taken = 0  # in all, without the top and the free class, where the top is 0
            givers = takers = 0  # how often the top is in each sum
            for k in others:
                if k != free:
                    state[k] = code & 3
                    code >>= 2
                    if state[k] == ZERO:
                        given += y[k]
                    elif state[k] == RAISED:
                        taken -= y[k] + 1
                        takers += 1
                    elif state[k] == LOWERED:
                        given += y[k] + 1
                        givers += 1
            for signs in range(4):
                value, rest = _solve(y[top], y[free], moves, given, taken, givers, takers, signs & 1, signs & 2)
                if not -SLACK <= rest <= value - 1 + SLACK:
                    continue
                for k in others:
                    point[k] = 0.0 if state[k] == ZERO else y[k] if state[k] == CLEAN else value - 1
                point[top], point[free] = value, rest
                cosine = _cosine(point, y, top, moves, gram, aim)
                if cosine < least:
                    best, least = point.copy(), cosine
    for giver in others:  # the bound is tight, the top stays, one gives and one takes
        for taker in others:
            if giver == taker:
                continue
            for code in range(3 ** (classes - 3)):
                given = taken = 0
                point[top] = y[top]
                for k in others:
                    if k in (giver, taker):
                        continue
                    kind = code % 3
                    code //= 3
                    point[k] = 0 if kind == ZERO else y[k] if kind == CLEAN else y[top] - 1
                    given += max(y[k] - point[k], 0)
                    taken += max(point[k] - y[k], 0)
                point[giver] = y[giver] - (moves - given)
                point[taker] = y[taker] + (moves - taken)
                cosine = _cosine(point, y, top, moves, gram, aim)
                if cosine < least:
                    best, least = point.copy(), cosine
    return best


@compile_loop
def _solve(
    top: int, free: int, moves: int, given: int, taken: int, givers: int, takers: int, rises: int, takes: int
) -> tuple[float, float]:
    """The top's value M and the free class's, so that the units given and those taken are `moves`; (0, 0) for none.

    The top `rises` or falls and the free class `takes` or gives; in whichever sum the free class is not, M is the only
    unknown.
    """
    if rises:
        taken -= top
        takers += 1
    else:
        given += top
        givers += 1
    if takes and givers:
        value = (given - moves) / givers
        return value, free + moves - (taken + takers * value)
    if not takes and takers:
        value = (moves - taken) / takers
        return value, free - moves + (given - givers * value)
    return 0.0, 0.0


@compile_loop
def _cosine(point: Vector, y: NDArray[np.int32], top: int, moves: int, gram: NDArray[np.float64], aim: Vector) -> float:
    """ŷᵀK y / √(ŷᵀKŷ) of a point of P, infinity for others; values just below zero are set to zero."""
    total = given = 0.0
    for k in range(len(y)):
        if point[k] < -SLACK or (k != top and point[k] > point[top] - 1 + SLACK):
            return np.inf
        point[k] = max(point[k], 0.0)
        total += point[k]
        given += max(y[k] - point[k], 0.0)
    if given > moves + SLACK or abs(total - ONE) > SLACK:
        return np.inf
    square = point @ (gram @ point)
    if not square > 0:
        return np.inf
    return float((point @ aim) / np.sqrt(square))
