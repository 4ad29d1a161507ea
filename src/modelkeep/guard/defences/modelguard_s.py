"""ModelGuard-S: quantise predictions online, in an order that never changes (Tang2024, section 3.5, algorithm 1)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, setting
from modelkeep.guard.defence import Defence, epsilon_setting
from modelkeep.guard.defences.keyed_point import keyed_point
from modelkeep.guard.grid import ONE, Predictions, Units
from modelkeep.guard.machine_code import compile_loop

LANES = 64  # centroids that are looked at together
_COARSE = 9  # a sketch counts in 2⁹ units, so that a whole prediction fits into 16 bits
STEP = 8  # coordinates between two looks at whether a block can still match


@declare(
    "guard", "modelguard-s", access="scores", paper="Tang2024, section 3.5, algorithm 1", extra="guard", kw_only=False
)
class ModelGuardS(Defence):
    """Answers with the first centroid of an ordered list within the budget, the same for ever.

    Each top-1 label has a list; where no centroid of it is near enough, one is appended. In the paper's form (the
    default) the new centroid is the clean prediction itself, so its first query is answered cleanly.
    With a `secret` the new centroid is instead a point within half of the budget that the secret draws, and no answer
    is ever clean. With `seeded: (n, classes)`, the owner's own predictions in units, the lists start with what
    algorithm 1 makes of those.

    >>> from modelkeep.guard.grid import confidences, snap
    >>> defence = ModelGuardS(epsilon=0.5)
    >>> seen = snap(np.array([[0.75, 0.25], [0.625, 0.375], [0.375, 0.625], [1.0, 0.0]]))
    >>> confidences(defence(seen, defence.initial(2)))
    array([[0.75 , 0.25 ],
           [0.75 , 0.25 ],
           [0.375, 0.625],
           [0.75 , 0.25 ]], dtype=float32)
    """

    epsilon: float = epsilon_setting(1.0)
    secret: bytes | None = setting("With a secret no answer is ever clean.", default=None, repr=False)
    seeded: Units | None = setting(
        "The owner's own predictions, to start the lists with.", default=None, repr=False, compare=False
    )
    stored_name = "modelkeep.guard.defences.modelguard_s.ModelGuardS"

    def __post_init__(self) -> None:
        if self.secret is not None and len(self.secret) < 8:
            raise InputError(f"A secret of {len(self.secret)} bytes can be guessed; give at least 8, better 32.")

    def initial(self, classes: int) -> Centroids:
        """Empty lists of centroids, or those that the owner's predictions make."""
        state = Centroids(classes)
        if self.seeded is not None:
            if self.seeded.ndim != 2 or self.seeded.shape[1] != classes:
                raise InputError(f"Seeds for {classes} classes are (n, {classes}). Got shape {self.seeded.shape}.")
            self(Predictions(self.seeded, self.seeded.argmax(axis=1), np.zeros(len(self.seeded), np.int64)), state)
        return state

    def __call__(
        self, predictions: Predictions, state: Centroids | None = None, inputs: torch.Tensor | None = None
    ) -> Units:
        """Algorithm 1, row after row; misses are appended to `state`."""
        units, labels = predictions.units, predictions.labels
        state = self.initial(units.shape[1]) if state is None else state
        allowed = predictions.allowed(self.epsilon)
        answers = np.empty_like(units)
        index, unsure = _no_matches(len(units))
        for label, members in _by_label(labels):
            start = 0
            while start < len(members):
                rows, sketch, length = state.log(label)
                start = _match(rows, sketch, length, units, allowed, 0, members, start, True, index, unsure)
                if start < len(members):
                    missed = members[start]
                    state.append(label, self.propose(units[missed], label, length, int(allowed[missed])))
            answers[members] = state.rows(label)[index[members]]
        return answers

    def propose(self, units: NDArray[np.int32], label: int, position: int, allowed: int) -> NDArray[np.int32]:
        """What a query without a match appends to the list of `label` as entry number `position`.

        `allowed` is what the budget leaves this query (`Predictions.allowed`).
        """
        return units if self.secret is None else keyed_point(self.secret, units, label, position, allowed)


class Centroids:
    """Per class an ordered list of centroids that is only ever appended to.

    A look-up compares whole units, so its answer does not depend on the machine or the order of additions.
    """

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self._logs = [
            (np.empty((0, classes), np.int32), np.empty((0, classes, LANES), np.uint16)) for _ in range(classes)
        ]
        self._lengths = [0] * classes

    def copy(self) -> Centroids:
        """The same lists, independent from now on."""
        twin = Centroids(self.classes)
        twin._logs = [(rows.copy(), sketch.copy()) for rows, sketch in self._logs]
        twin._lengths = list(self._lengths)
        return twin

    def length(self, label: int) -> int:
        """How many centroids the class has."""
        return self._lengths[label]

    def rows(self, label: int) -> Units:
        """The centroids of the class in order, (length, classes)."""
        rows, _, length = self.log(label)
        return rows[:length]

    def append(self, label: int, centroid: NDArray[np.int32]) -> None:
        """Put `centroid: (classes,)` at the end of the list of `label`."""
        rows, sketch = self._logs[label]
        position = self._lengths[label]
        if position == len(rows):  # readers in other threads keep the old arrays, whose entries never change
            grown = max(LANES, 2 * position)
            wider = np.zeros((grown, self.classes), np.int32)
            coarser = np.zeros((grown // LANES, self.classes, LANES), np.uint16)
            wider[:position], coarser[: len(sketch)] = rows, sketch
            rows, sketch = self._logs[label] = wider, coarser
        rows[position] = centroid
        sketch[position // LANES, :, position % LANES] = -(-centroid >> _COARSE)  # rounded up
        self._lengths[label] = position + 1

    def log(self, label: int) -> tuple[Units, NDArray[np.uint16], int]:
        """Rows, their sketch and their number, such that a reader sees a prefix of the list whatever is appended."""
        length = self._lengths[label]
        return *self._logs[label], length

    def match(
        self, units: Units, labels: NDArray[np.int64], allowed: NDArray[np.int64] | int, slack: int = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """For each row the position of the FIRST centroid of its class within `allowed`, -1 where there is none.

        The second answer says whether some centroid at or before the match (any, where there is none) has a distance
        within `slack` of `allowed`: whether a change of the distances by that much could change the first answer.
        """
        index, unsure = _no_matches(len(units))
        bounds = np.full(len(units), allowed) if isinstance(allowed, int) else allowed
        for label, members in _by_label(labels):
            _match(*self.log(label), units, bounds, slack, members, 0, False, index, unsure)
        return index, unsure


def _no_matches(count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    return np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.bool_)


def _by_label(labels: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
    """(label, its rows in order) for each label that occurs."""
    if len(labels) == 1:
        return [(int(labels[0]), np.zeros(1, dtype=np.int64))]
    if len(labels) == 0:
        return []
    order = np.argsort(labels, kind="stable")
    present, starts = np.unique(labels[order], return_index=True)
    return list(zip(present.tolist(), np.split(order, starts[1:]), strict=True))


@compile_loop
def _match(
    rows: Units,
    sketch: NDArray[np.uint16],
    length: int,
    units: Units,
    allowed: NDArray[np.int64],
    slack: int,
    members: NDArray[np.int64],
    start: int,
    stop: bool,
    index: NDArray[np.int64],
    unsure: NDArray[np.bool_],
) -> int:
    """Fill `index` and `unsure` of the `members` from number `start` on; with `stop` return at the first miss.

    Both sides sum to one, so ‖c − y‖₁ = 2 Σ max(y − c, 0), and part of that sum is a lower bound: where y is large
    decides. A block of centroids is given up once the bound of each of them, on a coarser grid that rounds it down,
    is too large; what is left is measured exactly.
    """
    classes = units.shape[1]
    order = np.empty(classes, np.int64)
    bound = np.empty(LANES, np.uint16)
    for number in range(start, len(members)):
        row = members[number]
        y = units[row]
        far = allowed[row] + slack  # a centroid beyond this neither matches nor is close to it
        limit = far >> (_COARSE + 1)
        _large_first(y, order)
        found = -1
        for block in range((length + LANES - 1) // LANES):
            bound[:] = 0
            left = ONE >> _COARSE
            least = 0
            for begin in range(0, classes, STEP):
                for at in range(begin, min(begin + STEP, classes)):
                    coarse = np.uint16(y[order[at]] >> _COARSE)
                    _add(bound, sketch[block, order[at]], coarse)
                    left -= int(coarse)
                least = _least(bound)
                if least > limit or least + left <= limit:
                    break
            if least > limit:
                continue
            for position in range(block * LANES, min((block + 1) * LANES, length)):
                if bound[position % LANES] <= limit:
                    distance = _distance(rows[position], y)
                    if abs(distance - allowed[row]) <= slack and slack > 0:
                        unsure[row] = True
                    if distance <= allowed[row]:
                        found = position
                        break
            if found >= 0:
                break
        index[row] = found
        if found < 0 and stop:
            return number
    return len(members)


@compile_loop
def _large_first(y: NDArray[np.int32], order: NDArray[np.int64]) -> None:
    """The coordinates of y from large to small, roughly: only speed depends on it."""
    place = 0
    above = 2 * ONE
    for threshold in (ONE >> 3, ONE >> 5, ONE >> 7, ONE >> 9, 0):
        for k in range(len(y)):
            if threshold <= y[k] < above:
                order[place] = k
                place += 1
        above = threshold


@compile_loop
def _add(bound: NDArray[np.uint16], centroids: NDArray[np.uint16], coarse: np.uint16) -> None:
    """Add max(y − c, 0) of one coordinate to all bounds of a block."""
    for lane in range(LANES):
        bound[lane] += max(coarse, centroids[lane]) - centroids[lane]


@compile_loop
def _least(bound: NDArray[np.uint16]) -> int:
    least = bound[0]
    for lane in range(LANES):
        least = min(least, bound[lane])
    return int(least)


@compile_loop
def _distance(ours: NDArray[np.int32], theirs: NDArray[np.int32]) -> int:
    """The ℓ1 distance in units."""
    distance = 0
    for k in range(len(ours)):
        distance += abs(int(ours[k]) - int(theirs[k]))
    return distance
