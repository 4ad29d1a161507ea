"""How much of a budget and of a rate a lease may take: a token bucket that holds one second's worth."""

from __future__ import annotations

import math
from dataclasses import dataclass

from modelkeep.core.errors import bad_parameter
from modelkeep.guard.store.store import Lease

GRAIN = 1e-6  # a token is whole if this little is missing: seconds since 1970 are no finer in a float
SKEW = 60.0  # replicas' clocks differ by less than this; a time further ahead was a clock that was wrong


@dataclass(frozen=True)
class Account:
    """The limits of a principal and what was taken of them so far."""

    queries: int | None
    rate: float | None
    spent: int
    tokens: float | None  # None: nothing was ever taken, so the bucket is full
    refilled: float


def lease(account: Account, wanted: int, now: float) -> tuple[Lease, Account]:
    """Take up to `wanted` queries at the time `now`; the lease, and the account after it (the same if none changed).

    >>> account = Account(queries=5, rate=2.0, spent=0, tokens=None, refilled=0.0)
    >>> given, account = lease(account, 10, now=100.0)
    >>> given
    Lease(granted=2, wait=0.5)
    >>> lease(account, 10, now=100.5)[0]
    Lease(granted=1, wait=0.5)
    """
    if wanted < 1:
        raise bad_parameter("lease", "wanted", "1 or more", wanted)
    if not math.isfinite(now):
        raise bad_parameter("lease", "now", "a time in seconds", now)
    left = wanted if account.queries is None else max(0, account.queries - account.spent)
    if account.rate is None:
        granted = min(wanted, left)
        after = Account(account.queries, None, account.spent + granted, None, now)
        return Lease(granted, 0.0 if granted == wanted else None), after if granted else account
    capacity = max(1.0, account.rate)
    # A clock behind the last one brings no tokens, else two clocks in turn would refill the bucket for ever.
    then = account.refilled if account.refilled - now <= SKEW else now
    time = max(then, now)
    tokens = capacity if account.tokens is None else min(capacity, account.tokens + (time - then) * account.rate)
    granted = max(0, min(wanted, left, math.floor(tokens + GRAIN)))
    wait: float | None = 0.0
    if granted < wanted:
        wait = None if granted == left else max(0.0, time - now + (1 + granted - tokens) / account.rate)
    if not granted and then == account.refilled:
        return Lease(0, wait), account  # a refusal costs no write
    after = Account(account.queries, account.rate, account.spent + granted, tokens - granted, time)
    return Lease(granted, wait), after
