"""Route: the stages of a pass, from the party that brings the inputs to the party that takes the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Stage:
    """What one party computes without a message in between: its adjacent pieces, perhaps the inputs or the outputs."""

    holder: str
    pieces: tuple[int, ...]
    source: bool = False
    sink: bool = False


def make_route(holders: Sequence[str], source: str, sink: str) -> tuple[Stage, ...]:
    """The stages of a pass through the pieces of the `holders`, in order.

    >>> [stage.holder for stage in make_route(("alice", "bob"), "alice", "bob")]
    ['alice', 'bob']
    >>> [stage.holder for stage in make_route(("alice", "bob", "alice"), "alice", "alice")]  # U-shaped
    ['alice', 'bob', 'alice']
    >>> [stage.holder for stage in make_route(("bob",), "alice", "carol")]
    ['alice', 'bob', 'carol']
    """
    start, end = -1, len(holders)
    places = [(source, start), *((holder, piece) for piece, holder in enumerate(holders)), (sink, end)]
    route = []
    for holder, group in groupby(places, key=lambda place: place[0]):
        numbers = [number for _, number in group]
        pieces = tuple(number for number in numbers if start < number < end)
        route.append(Stage(holder, pieces, start in numbers, end in numbers))
    return tuple(route)
