"""How a row of units is kept: little-endian int32, sealed with a checksum of its content and its place."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.errors import GuardError, InputError, bad_parameter

Sealed = tuple[bytes, bytes]  # the row, and its seal


def pack_row(units: NDArray[np.int32], *place: object) -> Sealed:
    """A row as bytes, with the seal that binds it to its place.

    >>> pack_row(np.array([1, -1], dtype=np.int32), "epoch", 0)[0].hex()
    '01000000ffffffff'
    """
    if units.ndim != 1 or units.dtype != np.int32 or not len(units):
        raise InputError(f"A store keeps rows of int32 units. Got {units.dtype} of shape {units.shape}.")
    content = units.astype("<i4").tobytes()
    return content, _seal(content, place)


def unpack_row(row: Sealed, classes: int, *place: object) -> NDArray[np.int32]:
    """The units of a row of that place; a damaged row is an error, never an answer."""
    content, seal = row
    if len(content) != 4 * classes or seal != _seal(content, place):
        raise GuardError(
            f"The store is damaged: the row of {', '.join(map(str, place))} is not what was written there "
            f"({len(content)} bytes; {classes} classes need {4 * classes}). Restore the store from a backup; "
            "answers computed anew could differ from those given before."
        )
    return np.frombuffer(content, dtype="<i4").astype(np.int32)


def log(
    rows: Sequence[tuple[int, bytes, bytes]], classes: int, epoch: str, label: int, after: int
) -> NDArray[np.int32]:
    """(position, row, seal)s in order, from position `after` on, as a table (k, classes). A hole is an error."""
    table = np.empty((len(rows), classes), dtype=np.int32)
    for i, (position, content, seal) in enumerate(rows):
        if position != after + i:
            raise GuardError(
                f"The store is damaged: class {label} of epoch {epoch} has no centroid at position {after + i}. "
                "Restore the store from a backup."
            )
        table[i] = unpack_row((content, seal), classes, epoch, label, position)
    return table


def check_place(epoch: str, label: int, position: int, classes: int) -> None:
    """Refuse to append where no log can be."""
    if not epoch:
        raise bad_parameter("append", "epoch", "a name", epoch)
    if not 0 <= label < classes:
        raise bad_parameter("append", "label", f"one of the {classes} classes", label)
    if position < 0:
        raise bad_parameter("append", "position", "0 or more", position)


def hole_error(epoch: str, label: int, position: int, length: int) -> GuardError:
    """The error of an append that would leave a hole."""
    return GuardError(
        f"Cannot append at position {position} of class {label} of epoch {epoch}: the log holds {length} centroids, "
        "and has no holes. Read the log first; was the store replaced by an older one?"
    )


def classes_error(epoch: str, classes: int, got: int) -> GuardError:
    """The error of a row that does not fit the others of its epoch."""
    return GuardError(
        f"Epoch {epoch} has {classes} classes. Got a row of {got}; a policy of other classes is another epoch."
    )


def _seal(content: bytes, place: tuple[object, ...]) -> bytes:
    return blake2b(repr(place).encode() + content, digest_size=8).digest()
