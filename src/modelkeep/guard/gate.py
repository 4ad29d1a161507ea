"""Gate: from clean predictions to the answers that may leave, each of them the same for ever.

ModelGuard-S answers with the first centroid of an ordered log that is near enough. The log only grows at its end, so
the first match in any prefix of it is the first match in all of it: what a replica has read, however stale, already
gives the right answer, and only a query without a match goes to the store. It appends a centroid by compare and
append, and no answer leaves before its centroid is durable.

Float noise moves a prediction a little from one batch or machine to the next. A query whose answer that could change
(a distance or a top-1 margin within the noise of its line) is looked up by the hash of its input: the first answer that
was given is durable, and it holds. If one replica finds a query clearly on one side of every line, the noise cannot
have carried it across for another, so what is unsure to one and sure to the other still gets one answer.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.errors import GuardError, InputError
from modelkeep.guard.defences.modelguard_s import Centroids, ModelGuardS
from modelkeep.guard.defences.no_defence import NoDefence
from modelkeep.guard.defences.top_one import TopOne
from modelkeep.guard.grid import Predictions, Units, snap
from modelkeep.guard.machine_code import compile_loop
from modelkeep.guard.policy import Policy
from modelkeep.guard.store.store import Store


@dataclass(frozen=True, eq=False)
class Quick:
    """What could be answered from memory: `answers: (n, classes)`, the rows `slow` among them still empty."""

    predictions: Predictions
    answers: Units
    slow: NDArray[np.int64]
    unsure: NDArray[np.bool_]


_MOST_REMEMBERED = 1 << 23  # confidences of kept answers that stay in memory: 32 MB


class Gate:
    """The one way from predictions to answers. Safe to call from many threads; many gates may share one store."""

    def __init__(self, policy: Policy, store: Store) -> None:
        self.policy = policy
        self.store = store
        self.misses = 0
        self.unsure = 0
        self._lock = threading.Lock()  # held for microseconds, never while the store is asked
        self._ordered = policy.defence if isinstance(policy.defence, ModelGuardS) else None
        self.centroids = Centroids(policy.classes)
        self._kept: dict[bytes, NDArray[np.int32]] = {}  # answers that the store holds, and so never change
        state = policy.defence.initial(policy.classes)
        if self._ordered is not None:
            for label in range(policy.classes):
                self._refresh(label)
            self._plant(state)
        elif state is not None:  # it would begin anew with each call, and answer cleanly
            raise GuardError(
                f"The defence {policy.defence.name!r} has a state, and a gate keeps that of ModelGuard-S only. "
                "Use ModelGuardS, or a defence without a state such as ModelGuardW."
            )

    def answer(
        self, raw: NDArray[Any], queries: Sequence[bytes], inputs: torch.Tensor | None = None
    ) -> tuple[Predictions, Units]:
        """The predictions on the grid and their answers, (n, classes); `queries` are the hashes of the inputs."""
        return self.settle(self.quick(raw, queries, inputs), queries)

    def quick(self, raw: NDArray[Any], queries: Sequence[bytes], inputs: torch.Tensor | None = None) -> Quick:
        """Answer from memory what can be; this never waits for the store."""
        predictions = snap(raw)
        policy = self.policy
        if predictions.units.shape[1] != policy.classes or len(queries) != len(predictions):
            raise InputError(
                f"{len(queries)} queries of {policy.classes} classes were announced, and predictions of shape "
                f"{predictions.units.shape} came."
            )
        if self._ordered is None:
            answers = policy.defence(predictions, None, inputs)
            unsure = slow = self._fuzzy(predictions)
        else:
            with self._lock:
                answers, found, unsure = self._match(predictions)
            slow = unsure | ~found
        left = []
        for row in slow.nonzero()[0].tolist():
            kept = self._kept.get(queries[row]) if unsure[row] else None
            if kept is None:
                left.append(row)
            else:
                answers[row] = kept
        return Quick(predictions, answers, np.array(left, dtype=np.int64), unsure)

    def settle(self, quick: Quick, queries: Sequence[bytes]) -> tuple[Predictions, Units]:
        """Answer the rest with the store. If it cannot be reached, no answer leaves, and the call may be repeated."""
        if len(quick.slow) == 0:
            return quick.predictions, quick.answers
        epoch, store = self.policy.epoch, self.store
        unsure = [queries[row] for row in quick.slow if quick.unsure[row]]
        kept = store.recall(epoch, unsure) if unsure else {}
        given: dict[bytes, NDArray[np.int32]] = {}
        for row in quick.slow:
            query = queries[row]
            if query in kept:
                quick.answers[row] = kept[query]
                continue
            if self._ordered is not None:  # asked again, for a centroid that came only now may lie on the line as well
                quick.answers[row], quick.unsure[row] = self._first_match(quick.predictions, int(row))
            if quick.unsure[row]:
                given.setdefault(query, quick.answers[row].copy())
        held = store.remember(epoch, given) if given else {}
        if (len(self._kept) + len(queries)) * self.policy.classes > _MOST_REMEMBERED:
            self._kept.clear()
        self._kept |= kept | held
        for row in quick.slow:
            if queries[row] in given:
                quick.answers[row] = held[queries[row]]
        self.unsure += int(quick.unsure.sum())
        return quick.predictions, quick.answers

    def _first_match(self, predictions: Predictions, row: int) -> tuple[NDArray[np.int32], bool]:
        """The first centroid that is near enough, appended if there was none, and whether noise could change that."""
        assert self._ordered is not None
        one = Predictions(
            predictions.units[row : row + 1], predictions.labels[row : row + 1], predictions.spent[row : row + 1]
        )
        label = int(one.labels[0])
        while True:
            with self._lock:
                answers, found, unsure = self._match(one)
                known = self.centroids.length(label)
            if found[0]:
                return answers[0], bool(unsure[0])
            if self._refresh(label):
                continue
            allowed = int(one.allowed(self._ordered.epsilon)[0])
            centroid = self._ordered.propose(one.units[0], label, known, allowed)
            if self.store.append(self.policy.epoch, label, known, centroid):
                self.misses += 1
                self._extend(label, known, centroid[None])
            else:
                self._refresh(label)

    def _match(self, predictions: Predictions) -> tuple[Units, NDArray[np.bool_], NDArray[np.bool_]]:
        """(answers, whether there is one, whether noise could change it) from the centroids that were read."""
        allowed = predictions.allowed(self.policy.defence.epsilon)
        slack = self.policy.slack
        index, unsure = self.centroids.match(predictions.units, predictions.labels, allowed, slack)
        answers = predictions.units.copy()
        for row, (label, at) in enumerate(zip(predictions.labels.tolist(), index.tolist(), strict=True)):
            if at >= 0:
                answers[row] = self.centroids.rows(label)[at]
        return answers, index >= 0, unsure | _near_tie(predictions.units, slack)

    def _fuzzy(self, predictions: Predictions) -> NDArray[np.bool_]:
        """Which answers of a defence without a state could change by noise."""
        slack = self.policy.slack
        # A clean answer has nothing to hide by being the same each time.
        if slack == 0 or isinstance(self.policy.defence, NoDefence):
            return np.zeros(len(predictions), dtype=np.bool_)
        if isinstance(self.policy.defence, TopOne):
            return _near_tie(predictions.units, slack)
        return np.ones(len(predictions), dtype=np.bool_)

    def _refresh(self, label: int) -> bool:
        """Read what the log of a class has gained; whether it had."""
        with self._lock:
            known = self.centroids.length(label)
        new = self.store.centroids(self.policy.epoch, label, known)
        if len(new):
            self._extend(label, known, new)
        return len(new) > 0

    def _extend(self, label: int, position: int, rows: Units) -> None:
        """Take over rows of the log that start at `position`; another thread may have brought some of them."""
        with self._lock:
            for row in rows[self.centroids.length(label) - position :]:
                self.centroids.append(label, row)

    def seed(self, predictions: Predictions) -> None:
        """Let the lists that are still empty begin with what algorithm 1 makes of the owner's own predictions.

        They are no part of the policy: a replica that predicts them with other float noise finds the lists begun.
        """
        if self._ordered is None:
            raise GuardError(f"The defence {self.policy.defence.name!r} has no lists of centroids to seed.")
        begun = Centroids(self.policy.classes)
        self._ordered(predictions, begun)
        self._plant(begun)

    def _plant(self, initial: Centroids) -> None:
        """Make the centroids that the owner's data gave the beginning of the durable logs that are still empty."""
        for label in range(self.policy.classes):
            if self.centroids.length(label) == 0 and initial.length(label) > 0:
                for position, centroid in enumerate(initial.rows(label)):
                    self.store.append(self.policy.epoch, label, position, centroid)
                self._refresh(label)


def _near_tie(units: Units, slack: int) -> NDArray[np.bool_]:
    """Whether the two largest confidences of a row lie within `slack`."""
    if slack == 0:
        return np.zeros(len(units), dtype=np.bool_)
    near = np.empty(len(units), dtype=np.bool_)
    _mark_near_ties(units, slack, near)
    return near


@compile_loop
def _mark_near_ties(units: Units, slack: int, near: NDArray[np.bool_]) -> None:
    for row in range(len(units)):
        first = second = 0
        for value in units[row]:
            if value > first:
                first, second = value, first
            elif value > second:
                second = value
        near[row] = first - second <= slack
