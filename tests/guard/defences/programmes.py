"""Programmes of ModelGuard-W as they are drawn for tests and benchmarks, and what HiGHS makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ONE = 1 << 46  # a grid so fine that whole units and real numbers have the same optimum to 1e-10


@dataclass(frozen=True)
class Programme:
    """A clean prediction in units of a fine grid with its top-1 label strictly on top, and a budget in units."""

    units: NDArray[np.int64]
    top: int
    allowed: int

    @property
    def costs(self) -> NDArray[np.float64]:
        """log y, where no unit counts as half of one."""
        return np.log(np.maximum(self.units, 0.5) / ONE)


def draw(random: np.random.Generator) -> Programme:
    """A peaked, flat, tied or sparse prediction of 2 to 70 classes, and a budget from 0.01 to 2."""
    classes = int(random.integers(2, 13) if random.random() < 0.8 else random.integers(13, 71))
    kind = int(random.integers(7))
    weights: NDArray[np.floating]
    if kind < 3:
        weights = random.dirichlet(np.full(classes, (0.05, 0.5, 5.0)[kind]))
    elif kind == 3:
        weights = 1.0 + random.integers(0, 3, classes)
    elif kind == 4:
        weights = np.where(random.random(classes) < 0.5, 0.0, random.dirichlet(np.full(classes, 0.3)))
        weights[random.integers(classes)] += 0.3
    else:
        weights = np.full(classes, (0.0, 1e-9)[kind - 5])
        weights[random.integers(classes)] = 1.0
    units = np.floor(weights / weights.sum() * ONE).astype(np.int64)
    top = int(units.argmax())
    units[top] += ONE - units.sum()
    rest = np.delete(units, top)
    if rest.max() >= units[top]:
        giver = int(np.flatnonzero(units == rest.max())[-1])
        units[[giver, top]] += np.array([-1, 1])
    epsilon = float(random.choice([0.01, 0.3, 1.0, 2.0, random.uniform(0.01, 2)]))
    return Programme(units, top, int(epsilon * ONE))


def highs(programmes: Sequence[Programme]) -> NDArray[np.float64]:
    """The optimum of equation 9 of each programme by scipy's HiGHS: x = y + up − down, a strict top by one unit.

    All of them stand as blocks in one large programme, because most of the time of a small one goes to its set-up.
    """
    from scipy.optimize import linprog
    from scipy.sparse import block_diag

    costs, at_most, limits, balanced, bounds = [], [], [], [], []
    for programme in programmes:
        y, top = programme.units / ONE, programme.top
        classes = len(y)
        below_top = np.delete(np.eye(classes), top, axis=0)
        below_top[:, top] -= 1
        costs.append(np.concatenate([programme.costs, -programme.costs]))
        at_most.append(np.vstack([np.ones(2 * classes), np.hstack([below_top, -below_top])]))
        limits.append(np.concatenate([[programme.allowed / ONE], y[top] - np.delete(y, top) - 1 / ONE]))
        balanced.append(np.concatenate([np.ones(classes), -np.ones(classes)])[None])
        bounds += [(0.0, 1.0)] * classes + [(0.0, value) for value in y]
    blocks: Any = block_diag(at_most, format="csr")  # its stubs know of no sparse tables
    sums: Any = block_diag(balanced, format="csr")
    found = linprog(
        np.concatenate(costs),
        A_ub=blocks,
        b_ub=np.concatenate(limits),
        A_eq=sums,
        b_eq=np.zeros(len(programmes)),
        bounds=bounds,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.x is None:
        raise AssertionError(f"HiGHS did not solve the programmes: {found.message}")
    moves = np.split(found.x, np.cumsum([len(block) for block in costs])[:-1])
    clean = [programme.costs @ (programme.units / ONE) for programme in programmes]
    return np.array([start + move @ cost for start, move, cost in zip(clean, moves, costs, strict=True)])
