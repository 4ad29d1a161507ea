"""What a defence costs per query, in a batch of 250: ModelGuard-W and -S, and going to the grid.

Floor: numpy copies the batch. Peers, in the same run: ModelGuard-W by scipy's HiGHS and, as the authors do, by PuLP and
CBC (where pulp is installed); ModelGuard-S by the obvious loop, with numpy for the distances of a query. The authors'
own figures were measured with their code on another day (ANCHORS.md), and are quoted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from _measure import arguments, interleaved, report
from modelkeep.guard.defences import Centroids, ModelGuardS, ModelGuardW
from modelkeep.guard.defences.angle import turn
from modelkeep.guard.defences.modelguard_w import solve
from modelkeep.guard.grid import ONE, Predictions, distortion, snap

BATCH, CENTROIDS, EPSILON = 250, 5000, 1.0  # a batch takes about a millisecond, so few are interrupted
FINE = 1 << 46  # a grid on which whole units and real numbers have the same optimum
AUTHORS = {
    "authors, quoted: modelguard_w_us_c10 in a batch": 4123,
    "authors, quoted: modelguard_w_us_c100 in a batch": 36630,
    "authors, quoted: modelguard_s_us_c100 in a batch": 243,
    "authors, quoted: mad_us_c10, the Jacobian given": 27888,
    "authors, quoted: mad_us_c100, the Jacobian given": 3505633,
}
Row = NDArray[np.float64]


def drawn(random: np.random.Generator, classes: int, *, concentration: float = 0.1, count: int = BATCH) -> Predictions:
    """Predictions with their mass on some classes, as networks make them of queries from elsewhere."""
    return snap(random.dirichlet(np.full(classes, concentration), count))


def highs(y: Row, top: int, epsilon: float, costs: Row, margin: float) -> float:
    """The least Σ x log y of equation 9; x = y + up − down."""
    classes = len(y)
    below = np.delete(np.eye(classes), top, axis=0)
    below[:, top] -= 1
    found = linprog(
        np.concatenate([costs, -costs]),
        A_ub=np.vstack([np.ones(2 * classes), np.hstack([below, -below])]),
        b_ub=np.concatenate([[epsilon], y[top] - np.delete(y, top) - margin]),
        A_eq=np.concatenate([np.ones(classes), -np.ones(classes)])[None],
        b_eq=[0.0],
        bounds=[(0.0, 1.0)] * classes + [(0.0, value) for value in y],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.fun is None:
        raise RuntimeError(f"HiGHS did not solve the programme: {found.message}")
    return float(found.fun + costs @ y)


def by_highs(rows: list[tuple[Row, int]]) -> None:
    """Solve each of (prediction, label) by HiGHS."""
    for y, top in rows:
        highs(y, top, EPSILON, np.log(np.maximum(y, 0.5 / ONE)), 1 / ONE)


def by_pulp(rows: list[tuple[Row, int]]) -> None:
    """Solve each of (prediction, label) as the authors do."""
    for y, top in rows:
        pulp_cbc(y, top, EPSILON)


def pulp_cbc(y: Row, top: int, epsilon: float) -> None:
    """The programme as the authors build it, with their solver."""
    import pulp

    classes = range(len(y))
    programme = pulp.LpProblem("modelguard_w", pulp.LpMinimize)
    x = [pulp.LpVariable(f"x{k}", 0, 1) for k in classes]
    apart = [pulp.LpVariable(f"d{k}", 0, 1) for k in classes]
    programme += pulp.lpSum(float(np.log(max(y[k], 1e-8))) * x[k] for k in classes)
    programme += pulp.lpSum(x) == 1
    programme += pulp.lpSum(apart) <= epsilon
    for k in classes:
        programme += x[k] - y[k] <= apart[k]
        programme += y[k] - x[k] <= apart[k]
        if k != top:
            programme += x[k] <= x[top] - 1e-6
    programme.solve(pulp.PULP_CBC_CMD(msg=False))


def gap_to_highs(random: np.random.Generator, programmes: int = 300) -> float:
    """The largest difference of the optima, over programmes of 2 to 60 classes and budgets from 0.01 to 2."""
    worst = 0.0
    for _ in range(programmes):
        classes = int(random.integers(2, 61))
        weights = random.dirichlet(np.full(classes, random.choice([0.05, 0.5, 5.0])))
        units = np.floor(weights * FINE).astype(np.int64)
        top = int(units.argmax())
        units[top] += FINE - units.sum()
        epsilon = float(random.uniform(0.01, 2))
        x = np.empty((1, classes), np.int64)
        solve(units[None], np.array([top]), np.array([int(epsilon * FINE)]), FINE, x)
        costs = np.log(np.maximum(units, 0.5) / FINE)
        worst = max(worst, abs(float(costs @ x[0]) / FINE - highs(units / FINE, top, epsilon, costs, 1 / FINE)))
    return worst


def grown(random: np.random.Generator, one_class: bool) -> tuple[Centroids, Predictions]:
    """What algorithm 1 has kept once it has 5,000 centroids of 100 classes, all of one class or not; new queries."""

    def queries(count: int) -> Predictions:
        some = drawn(random, 100, count=count)
        if one_class:  # the same predictions with their classes renamed
            rows = np.arange(count)
            first, top = some.units[:, 0].copy(), some.units[rows, some.labels]
            some.units[rows, some.labels] = first
            some.units[:, 0] = top
            some.labels[:] = 0
        return some

    defence = ModelGuardS(EPSILON)
    state = defence.initial(100)
    while (kept := sum(map(state.length, range(100)))) < CENTROIDS:
        defence(queries(min(500, CENTROIDS - kept)), state)
    return state, queries(BATCH)


def obvious(state: Centroids, asked: Predictions, epsilon: float) -> None:
    """Algorithm 1's look-up as it is written."""
    for y, label, most in zip(asked.units, asked.labels, asked.allowed(epsilon), strict=True):
        near = distortion(state.rows(int(label)), y) <= most
        near.argmax() if near.any() else -1


def turning(random: np.random.Generator, classes: int, queries: int = 50) -> Callable[[], object]:
    """MAD's programme, one query at a time, with the Gram matrix of a surrogate's log-softmax gradients given."""
    clean = drawn(random, classes, count=queries)
    allowed = clean.allowed(EPSILON)
    grams = []
    for _ in range(queries):
        jacobian = random.normal(size=(classes, 2 * classes))
        rows = jacobian - random.dirichlet(np.full(classes, 5.0)) @ jacobian  # ∇ log f_k = ∇z_k − Σ f_j ∇z_j
        grams.append(rows @ rows.T)

    def all_in_turn() -> None:
        for row, gram in enumerate(grams):
            one = slice(row, row + 1)
            turn(clean.units[one], clean.labels[one], allowed[one], gram, 8)

    return all_in_turn


def per_query(rivals: dict[str, Callable[[], object]], queries: int, repeats: int = 99) -> dict[str, float]:
    """Microseconds per query, the median of repetitions in turn."""
    return {name: 1e6 * seconds / queries for name, seconds in interleaved(rivals, repeats=repeats).items()}


def figures(seed: int) -> dict[str, float | int | str]:
    """All figures by name."""
    random = np.random.default_rng(seed)
    ten, hundred = drawn(random, 10), drawn(random, 100)
    raw = (hundred.units / ONE).astype(np.float32)
    spread, asked = grown(random, one_class=False)
    single, asked_of_one = grown(random, one_class=True)
    allowed, allowed_of_one = asked.allowed(EPSILON), asked_of_one.allowed(EPSILON)
    guard = ModelGuardW(EPSILON)
    found: dict[str, float | int | str] = {}
    found |= per_query(
        {
            "modelguard_w_us_c100": partial(guard, hundred),
            "modelguard_w_us_c10": partial(guard, ten),
            "modelguard_s_us_c100_5000": lambda: spread.match(asked.units, asked.labels, allowed),
            "modelguard_s_us_c100_5000_in_one_class": lambda: single.match(
                asked_of_one.units, asked_of_one.labels, allowed_of_one
            ),
            "snap_us_c100": partial(snap, raw),
            "floor: copy of the batch, us": hundred.units.copy,
        },
        BATCH,
    )
    found |= per_query({f"mad_us_c{classes}": turning(random, classes) for classes in (10, 100)}, 50, repeats=3)
    found["w_gap_to_highs_max"] = gap_to_highs(random)
    found |= per_query({"peer: obvious loop of modelguard-s, us": partial(obvious, spread, asked, EPSILON)}, BATCH, 3)
    some = Predictions(asked_of_one.units[:40], asked_of_one.labels[:40], asked_of_one.spent[:40])
    found |= per_query({"peer: the same, all in one class, us": partial(obvious, single, some, EPSILON)}, 40, 3)
    for name, clean in (("c10", ten), ("c100", hundred)):
        rows = [(units / ONE, int(label)) for units, label in zip(clean.units[:5], clean.labels[:5], strict=True)]
        peers: dict[str, Callable[[], object]] = {f"peer: HiGHS for modelguard-w, {name}, us": partial(by_highs, rows)}
        if find_spec("pulp"):
            peers[f"peer: PuLP + CBC for modelguard-w, {name}, us"] = partial(by_pulp, rows)
        found |= per_query(peers, len(rows), 3)
    return found | AUTHORS


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    report(figures(options.seed), options.json)


if __name__ == "__main__":
    main()
