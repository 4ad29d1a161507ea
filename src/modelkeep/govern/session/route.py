"""Legs: the way of a pass through the parties, from who brings the inputs to who takes the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Leg:
    """Stations of one party that follow each other: its pieces, perhaps the inputs before or the outputs after them."""

    holder: str
    pieces: tuple[int, ...]
    source: bool = False
    sink: bool = False


def legs(holders: Sequence[str], source: str, sink: str) -> tuple[Leg, ...]:
    """The legs of a pass through pieces that the `holders` hold, in order.

    >>> [leg.holder for leg in legs(("alice", "bob"), "alice", "bob")]
    ['alice', 'bob']
    >>> [leg.holder for leg in legs(("alice", "bob", "alice"), "alice", "alice")]  # U-shaped: the labels stay home
    ['alice', 'bob', 'alice']
    >>> [leg.holder for leg in legs(("bob",), "alice", "carol")]
    ['alice', 'bob', 'carol']
    """
    start, end = -1, len(holders)
    stations = [(source, start), *((holder, piece) for piece, holder in enumerate(holders)), (sink, end)]
    found = []
    for holder, group in groupby(stations, key=lambda station: station[0]):
        numbers = [number for _, number in group]
        pieces = tuple(number for number in numbers if start < number < end)
        found.append(Leg(holder, pieces, start in numbers, end in numbers))
    return tuple(found)
