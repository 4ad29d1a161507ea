"""What a gateway must never forget: the ordered logs of centroids, answers given, and who may ask how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.errors import GuardError, bad_parameter

if TYPE_CHECKING:
    from modelkeep.guard.grid import Units  # the grid needs a compiler; a store does not


@dataclass(frozen=True)
class Principal:
    """A caller that may ask, how many queries in all and how many per second (None: no limit)."""

    name: str
    queries: int | None
    rate: float | None
    revoked: bool = False


@dataclass(frozen=True)
class Lease:
    """Queries that were taken from a principal's budget and rate, durably, to be spent in memory.

    What a killed replica did not spend is lost to the principal, never given twice. `granted` may be less than was
    asked for, and 0; then `wait` says after how many seconds one more query is to be had (None: never).
    """

    granted: int
    wait: float | None


@dataclass(frozen=True)
class Event:
    """One line of the audit log. `detail` is JSON; no input, no key and no clean prediction is ever in it."""

    at: float  # seconds since 1970
    principal: str
    action: str
    detail: str


class Store(Protocol):
    """Durable state. Every method may be called from any thread; what it returns is on disk.

    A store that cannot be reached raises `StoreUnavailable`; the caller may simply call again: each method either did
    nothing or can be repeated without harm. All else that goes wrong (a damaged row above all) is another `GuardError`
    and no answer.
    """

    def centroids(self, epoch: str, label: int, after: int) -> Units:
        """The log of one class of one epoch from position `after` on, in order: (k, classes).

        An epoch that nothing was ever written to has no classes yet: (0, 0).
        """

    def append(self, epoch: str, label: int, position: int, centroid: NDArray[np.int32]) -> bool:
        """Compare and append: True if the log had exactly `position` entries and now holds one more, durably.

        False where the position is taken: read the log from there and look again. After `StoreUnavailable` it may be
        taken by this very centroid. A position beyond the end is an error, for the log has no holes.
        """

    def recall(self, epoch: str, queries: Sequence[bytes]) -> dict[bytes, NDArray[np.int32]]:
        """The answers that were given to these queries (their hashes), where one was kept."""

    def remember(self, epoch: str, answers: Mapping[bytes, NDArray[np.int32]]) -> dict[bytes, NDArray[np.int32]]:
        """Keep answers; where one is kept already it stays. Returns those that hold now, durably."""

    def principal(self, key: bytes) -> Principal | None:
        """Whose key this is (`key` is its SHA-256), also where it is revoked."""

    def principals(self) -> list[Principal]:
        """Everybody, by name."""

    def admit(self, principal: Principal, key: bytes) -> None:
        """Add a principal with a key's hash, or change the limits of a known one and add the key beside its keys.

        A key is one principal's for ever, and once revoked it stays so.
        """

    def revoke(self, name: str, *, keep: bytes | None = None) -> int:
        """Revoke all keys of a principal but `keep`; how many were revoked."""

    def lease(self, name: str, wanted: int, now: float) -> Lease:
        """Take up to `wanted` queries from the budget and the rate (a token bucket of one second) of a principal.

        `now` is in seconds since 1970: replicas share the bucket.
        """

    def spent(self) -> dict[str, int]:
        """How many queries each principal has taken, unspent leases included."""

    def sizes(self, epoch: str) -> dict[int, int]:
        """How many centroids each class has."""

    def write(self, events: Sequence[Event]) -> None:
        """Append to the audit log. What is written again after `StoreUnavailable` may stand there twice."""

    def events(self, limit: int = 100) -> list[Event]:
        """The latest events, newest first."""

    def close(self) -> None:
        """Give back what is open."""


def check_admission(principal: Principal, key: bytes) -> None:
    """Refuse limits that mean nothing, and what is not a SHA-256."""
    name = principal.name
    if not 0 < len(name) <= 100 or not name.isprintable() or name != name.strip() or principal.revoked:
        # A name is read in logs and on the dashboard: 'operator ' or one with a line break would lie there.
        raise bad_parameter(
            "admit", "principal", "one with a printable name of 1 to 100 characters, and not revoked", principal
        )
    if principal.queries is not None and principal.queries < 0:
        raise bad_parameter("admit", "queries", "0 or more, or None for no limit", principal.queries)
    if principal.rate is not None and not 0 < principal.rate < float("inf"):
        raise bad_parameter("admit", "rate", "above 0 and finite, or None for no limit", principal.rate)
    if len(key) != 32:
        raise bad_parameter("admit", "key", "the 32 bytes of a SHA-256", f"{len(key)} bytes")


def key_taken_error(principal: Principal) -> GuardError:
    """The error of a key that was given out before."""
    return GuardError(
        f"This key cannot be given to {principal.name!r}: it was revoked, or is another principal's. Make a new key."
    )


def unknown_principal_error(name: str) -> GuardError:
    """The error of a name that was never admitted."""
    return GuardError(f"There is no principal {name!r}. Admit it first.")
