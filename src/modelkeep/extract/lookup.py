"""Lookup: for each answer the mean of all table entries that match it, in one pass over a table of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.guard.grid import ONE, Units
from modelkeep.guard.machine_code import compile_loop

FAR = np.iinfo(np.int64).max


class Lookup:
    """The answers to be recovered, and what was found for each so far.

    Entries come in parts and are forgotten, so memory grows with the answers only. Distances are whole numbers of the
    guard's grid: what a quantiser maps to one centroid is found at distance exactly 0. Only entries whose p(y) has the
    answer's top-1 label are looked at.
    """

    def __init__(self, answers: torch.Tensor, tolerance: float) -> None:
        self._answers = answers
        self._units = _units(answers)
        self._tolerance = int(tolerance * ONE) ** 2
        self._sums = np.zeros(answers.shape)
        self._matches = np.zeros(len(answers), dtype=np.int64)
        self._nearest = answers.double().numpy().copy()
        self._near = np.ones(len(answers), dtype=np.int64)
        self._distance = np.full(len(answers), FAR, dtype=np.int64)

    @property
    def matched(self) -> torch.Tensor:
        """Whether each answer had a match within the tolerance `(n,)`."""
        return torch.from_numpy(self._matches > 0)

    def add(self, clean: torch.Tensor, perturbed: torch.Tensor) -> None:
        """Look at more entries of the table: `clean` predictions y and their `perturbed` p(y), both (m, classes)."""
        units, sums, counts = _merge_equal(_units(perturbed), clean.double().numpy())
        labels = units.argmax(axis=1)
        tops = units[np.arange(len(units)), labels]
        order = np.lexsort((tops, labels))
        starts = np.searchsorted(labels[order], np.arange(units.shape[1] + 1))
        _scan(
            self._units, self._units.argmax(axis=1), self._tolerance,
            units[order], sums[order], counts[order], tops[order], starts,
            self._sums, self._matches, self._nearest, self._near, self._distance,
        )  # fmt: skip

    def recover(self) -> torch.Tensor:
        """The mean of the matches; where nothing matched, of the nearest entries; else the answer itself."""
        means = self._sums / np.maximum(self._matches, 1)[:, None]
        found = np.where(self._matches[:, None] > 0, means, self._nearest / self._near[:, None])
        return torch.from_numpy(found).to(self._answers.dtype)


def _units(predictions: torch.Tensor) -> Units:
    units: Units = (predictions.double() * ONE).round().int().numpy()
    return units


def _merge_equal(units: Units, clean: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Each different row once, with the sum of its clean predictions and their number: quantisers give few."""
    rows = np.ascontiguousarray(units).view(f"V{units.itemsize * units.shape[1]}").ravel()
    _, first, group = np.unique(rows, return_index=True, return_inverse=True)
    sums = np.zeros((len(first), clean.shape[1]))
    np.add.at(sums, group, clean)
    return units[first], sums, np.bincount(group)


@compile_loop
def _scan(
    answers: Units,
    labels: NDArray[np.int64],
    tolerance: int,
    units: Units,
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
    tops: NDArray[np.int32],
    starts: NDArray[np.int64],
    found: NDArray[np.float64],
    matches: NDArray[np.int64],
    nearest: NDArray[np.float64],
    near: NDArray[np.int64],
    distance: NDArray[np.int64],
) -> None:
    """Scan outwards from each answer's top value among the entries of its label, which are sorted by theirs.

    The difference of the top values alone bounds the distance from below, so that a scan ends early.
    """
    classes = answers.shape[1]
    for i in range(len(answers)):
        label = labels[i]
        start, end = starts[label], starts[label + 1]
        top = answers[i, label]
        above = start + np.searchsorted(tops[start:end], top)
        below = above - 1
        while below >= start or above < end:
            if above >= end or (below >= start and top - tops[below] < tops[above] - top):
                entry = below
                below -= 1
            else:
                entry = above
                above += 1
            limit = tolerance if matches[i] > 0 else max(tolerance, distance[i])
            gap = np.int64(tops[entry]) - top
            if gap * gap > limit:
                break
            squared = 0
            for k in range(classes):
                apart = np.int64(units[entry, k]) - answers[i, k]
                squared += apart * apart
                if squared > limit:
                    break
            if squared <= tolerance:
                matches[i] += counts[entry]
                found[i] += sums[entry]
            elif matches[i] == 0 and squared <= distance[i]:
                if squared < distance[i]:
                    distance[i] = squared
                    near[i] = 0
                    nearest[i] = 0.0
                near[i] += counts[entry]
                nearest[i] += sums[entry]
