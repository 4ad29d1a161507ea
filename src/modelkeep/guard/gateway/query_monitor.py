"""Whose queries look like a thief's: an aid to the operator, not a promise. It never changes an answer.

Two scores per principal. PRADA (Juuti2019): the distances of natural queries to the nearest earlier one of
their class are about normal, those of synthetic ones are not, which the Shapiro–Wilk statistic W tells. Outliers:
queries from elsewhere get other confidences than the owner's own data, which the Kolmogorov–Smirnov statistic tells. A
thief who knows this can pass both; an unusual but honest user can fail them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.errors import bad_parameter
from modelkeep.guard.grid import ONE, Predictions, Units
from modelkeep.guard.machine_code import compile_loop
from modelkeep.guard.protocol.tensors import Array

_COORDINATES = 128  # of an input that distances are measured in, drawn once: cost and memory do not grow with the input
_EARLIER = 256  # queries of a principal that the next one is compared with
RECENT = 512  # distances and confidences that a score is computed from
PRINCIPALS = 256  # principals that are watched at a time; who was silent longest is forgotten first
ENOUGH = 100  # distances below which nothing is said, as in PRADA
NORMAL = 0.9  # W below this is unusual
ORDINARY = "looks like ordinary traffic"
APART = 0.2  # a KS distance above this, and above chance, is unusual

_Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Suspicion:
    """What the queries of a principal look like. Only aggregates: nothing tells about one query or one prediction."""

    principal: str
    queries: int  # since this replica began to watch
    normality: float | None  # Shapiro–Wilk W of the distances; None for too few of them
    outlying: float | None  # KS distance from the reference; None for too few queries or no reference
    score: float | None  # 1 is where it becomes unusual
    verdict: str  # `ORDINARY`, "unusual", "not assessed (…)" or "inconclusive (too few queries)"


class QueryMonitor:
    """Watches the queries of principals, in bounded memory and some microseconds per query.

    `reference: (n,)` are the top confidences of the model on the owner's own data; without them only distances count.
    """

    def __init__(self, reference: NDArray[np.floating] | None = None) -> None:
        if reference is not None and (reference.ndim != 1 or len(reference) < ENOUGH):
            raise bad_parameter("QueryMonitor", "reference", f"{ENOUGH} confidences or more, or None", reference.shape)
        self._reference = None if reference is None else np.sort(reference.astype(np.float64))
        self._watched: OrderedDict[str, _Rings] = OrderedDict()
        self._coordinates: NDArray[np.int64] | None = None
        self._lock = threading.Lock()
        nothing = np.zeros((0, 1), dtype=np.float32)  # compiles the loop now, so that no query waits for it
        seen = _Rings(1)
        none = np.zeros(0, dtype=np.int64)
        _watch(
            nothing,
            none,
            np.zeros(0, dtype=np.float32),
            seen.counts,
            seen.points,
            seen.labels,
            seen.distances,
            seen.tops,
        )

    def watch(self, principal: str, rows: Array, predictions: Predictions, answers: Units) -> None:
        """These `rows: (n, *input_shape)` were answered to this principal."""
        flat = rows.reshape(len(rows), -1)
        if self._coordinates is None:
            drawn = np.random.default_rng(0).permutation(flat.shape[1])[:_COORDINATES]
            self._coordinates = np.sort(drawn)
        points = flat.take(self._coordinates, axis=1).astype(np.float32)
        tops = (predictions.units.max(axis=1) / ONE).astype(np.float32)
        with self._lock:
            seen = self._watched.get(principal)
            if seen is None:
                if len(self._watched) >= PRINCIPALS:
                    self._watched.popitem(last=False)
                seen = self._watched[principal] = _Rings(points.shape[1])
            self._watched.move_to_end(principal)
            _watch(points, predictions.labels, tops, seen.counts, seen.points, seen.labels, seen.distances, seen.tops)

    def scores(self) -> list[Suspicion]:
        """Everybody who is watched, by name."""
        with self._lock:
            copies = {name: (seen.counts.copy(), *seen.recent()) for name, seen in self._watched.items()}
        return [self._judge(name, *copies[name]) for name in sorted(copies)]

    def _judge(self, name: str, counts: NDArray[np.int64], distances: _Floats, tops: _Floats) -> Suspicion:
        normality = _normality(distances)
        outlying = limit = None
        if self._reference is not None and len(tops) >= ENOUGH:
            from scipy.stats import ks_2samp

            outlying = float(ks_2samp(tops, self._reference, method="asymp").statistic)
            # At the 0.1 % level two samples of one distribution are nearer than this.
            limit = max(APART, 1.95 * (1 / len(tops) + 1 / len(self._reference)) ** 0.5)
        known = [(1 - normality) / (1 - NORMAL)] if normality is not None else []
        if outlying is not None and limit is not None:
            known.append(outlying / limit)
        score = max(known, default=None)
        verdict = "inconclusive (too few queries)"
        if score is not None:
            # Noise can have distances like those of ordinary queries: without a reference that alone proves nothing.
            seemly = ORDINARY if outlying is not None else "not assessed (no reference)"
            verdict = "unusual" if score > 1 else seemly
        return Suspicion(
            name, int(counts[0]), _round_score(normality), _round_score(outlying), _round_score(score), verdict
        )


@dataclass
class _Rings:
    """What is kept of one principal: rings of fixed size. `counts`: queries, distances."""

    width: int
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, dtype=np.int64))
    labels: NDArray[np.int64] = field(default_factory=lambda: np.full(_EARLIER, -1, dtype=np.int64))
    distances: _Floats = field(default_factory=lambda: np.zeros(RECENT, dtype=np.float32))
    tops: _Floats = field(default_factory=lambda: np.zeros(RECENT, dtype=np.float32))
    points: _Floats = field(init=False)

    def __post_init__(self) -> None:
        self.points = np.zeros((self.width, _EARLIER), dtype=np.float32)

    def recent(self) -> tuple[_Floats, _Floats]:
        return self.distances[: self.counts[1]].copy(), self.tops[: self.counts[0]].copy()


def _normality(distances: _Floats) -> float | None:
    """Shapiro–Wilk's W without the outliers beyond three standard deviations, as in PRADA."""
    if len(distances) < ENOUGH:
        return None
    kept = distances[np.abs(distances - distances.mean()) <= 3 * distances.std()]
    if np.ptp(kept) == 0:  # all equally far: as unnatural as it gets, and W is not defined
        return 0.0
    from scipy.stats import shapiro

    return float(shapiro(kept).statistic)


def _round_score(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


@compile_loop
def _watch(
    new: _Floats,
    new_labels: NDArray[np.int64],
    new_tops: _Floats,
    counts: NDArray[np.int64],
    points: _Floats,
    labels: NDArray[np.int64],
    distances: _Floats,
    tops: _Floats,
) -> None:
    """Take rows in order: the distance to the nearest earlier one of the same class, then the row itself."""
    squares = np.empty(len(labels), dtype=np.float32)
    for row in range(len(new)):
        squares[:] = 0
        for k in range(len(points)):  # coordinate by coordinate, because then the machine adds many queries at a time
            for other in range(len(labels)):
                step = new[row, k] - points[k, other]
                squares[other] += step * step
        nearest = np.float32(np.inf)
        for other in range(len(labels)):
            if labels[other] == new_labels[row]:
                nearest = min(nearest, squares[other])
        # A query that was asked before teaches nothing new, so it does not count.
        if 0 < nearest < np.inf:
            distances[counts[1] % len(distances)] = np.sqrt(nearest)
            counts[1] += 1
        if nearest > 0:
            points[:, counts[0] % len(labels)] = new[row]
            labels[counts[0] % len(labels)] = new_labels[row]
        tops[counts[0] % len(tops)] = new_tops[row]
        counts[0] += 1
