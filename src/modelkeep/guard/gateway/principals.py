"""Who asks, and how much they may: API keys that are kept as hashes only, and leases on durable budgets and rates."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import secrets
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from modelkeep.core.errors import StoreUnavailable
from modelkeep.guard.refusals import NotOperator, TooLarge, TooMany, Unauthorised, Unavailable
from modelkeep.guard.store.store import Lease, Principal, Store

T = TypeVar("T")

_PREFIX = "mk_"  # so that people and secret scanners know one when they see it
OPERATOR = "operator"  # the reserved principal: its key opens the metrics and the dashboard, and no model
_ANONYMOUS = Principal("anonymous", queries=None, rate=None)
_ANONYMOUS_KEY = bytes(32)  # stands for the hash of anonymous' key: no key is known whose SHA-256 this is
KEEP = 2.0  # seconds that a lookup is believed: a revoked key is refused after that, in every replica
_REFRESH = 1.0  # seconds after which it is looked up again in the background, so that no request waits for it
_AHEAD = 0.25  # seconds of traffic that a lease is meant to cover
CACHED = 10_000  # lookups that are kept; random keys must not fill the memory


def new_key() -> str:
    """A fresh key with 256 random bits; it is shown once, and nowhere kept."""
    return _PREFIX + secrets.token_urlsafe(32)


def hash_key(key: str) -> bytes:
    """What is stored of a key. A plain hash is enough: 256 random bits cannot be guessed, so none need slow guesses."""
    return hashlib.sha256(key.encode()).digest()


@dataclass
class _Purse:
    """What is left of a principal's leases, in this replica."""

    left: int = 0
    chunk: float = 1.0  # how much to lease next
    wanted: int = 0  # rows of requests that wait now
    leased: float = -1e9  # when the last lease was taken
    shut: float = -1e9  # until when the store need not be asked: it has nothing
    spent: bool = False  # whether that is so because the budget is used up
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    refilling: bool = False


@dataclass
class _Lookup:
    at: float
    principal: Principal | None
    refreshing: bool = False


class Principals:
    """Admits callers that have a key, and lets them ask as much as they may.

    The store is asked in threads of its own, rarely: who a key belongs to is believed for two seconds, and queries are
    taken from the budget some at a time, durably, then spent in memory. With `open` no one needs a key, and everybody
    is `anonymous`.
    """

    def __init__(self, store: Store, *, open: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.store = store
        self.open = open
        self._clock = clock
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="principals")
        self._known: dict[bytes, _Lookup] = {}
        self._purses: dict[str, _Purse] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def admit(self, authorization: str | None) -> Principal:
        """Whose key the header or the gRPC metadatum `authorization` bears."""
        principal = await self._whose(_ANONYMOUS_KEY if self.open else hash_key(_key(authorization)))
        if principal is None or principal.revoked or principal.name == OPERATOR:
            raise Unauthorised("This key is unknown or was revoked. Ask the operator of this gateway for one.")
        return principal

    async def operator(self, authorization: str | None) -> Principal:
        """The same for what only the operator may see. Also where the gateway is open, and also from loopback: behind a
        proxy on the same machine, everybody comes from loopback."""
        try:
            principal = await self._whose(hash_key(_key(authorization)))
        except Unauthorised:
            principal = None
        if principal is None or principal.revoked or principal.name != OPERATOR:
            raise NotOperator(f"This needs the operator's key. Make one with: modelkeep guard keys add {OPERATOR}")
        return principal

    async def spend(self, principal: Principal, rows: int) -> None:
        """Take `rows` queries off the principal's budget and rate, or refuse."""
        if principal.rate is not None and rows > max(1.0, principal.rate):
            raise TooLarge(
                f"This request has {rows} rows, and '{principal.name}' may ask {principal.rate:g} per second: "
                "it can never be answered at once. Send it in smaller parts."
            )
        purse = self._purses.setdefault(principal.name, _Purse())
        if purse.left < rows:
            purse.wanted += rows
            try:
                async with purse.lock:
                    while purse.left < rows and self._clock() >= purse.shut:
                        await self._lease(principal, purse)
            finally:
                purse.wanted -= rows
        if purse.left < rows:
            raise _too_many(principal, rows, purse, self._clock())
        purse.left -= rows
        if purse.left < purse.chunk / 2 and purse.chunk >= 2 and not purse.refilling and self._clock() >= purse.shut:
            purse.refilling = True
            self._later(self._refill(principal, purse))

    def unspent(self, name: str) -> int:
        """What this replica has leased for a principal and has not answered yet."""
        purse = self._purses.get(name)
        return 0 if purse is None else max(0, int(purse.left))

    async def close(self) -> None:
        """Let lookups and leases that are under way end."""
        await asyncio.gather(*self._background, return_exceptions=True)
        self._threads.shutdown()

    async def _whose(self, key: bytes) -> Principal | None:
        now = self._clock()
        known = self._known.get(key)
        if known is None or now - known.at >= KEEP:
            return await self._look_up(key)
        if now - known.at >= _REFRESH and known.principal is not None and not known.refreshing:
            known.refreshing = True
            self._later(self._look_up(key))
        return known.principal

    async def _look_up(self, key: bytes) -> Principal | None:
        at = self._clock()
        principal = await self._ask(lambda: self._find(key))
        if len(self._known) >= CACHED:
            self._known.clear()
        self._known[key] = _Lookup(at, principal)
        return principal

    def _find(self, key: bytes) -> Principal | None:
        found = self.store.principal(key)
        if found is None and key == _ANONYMOUS_KEY:  # only ever asked for where the gateway is open
            self.store.admit(_ANONYMOUS, key)
            return _ANONYMOUS
        return found

    async def _refill(self, principal: Principal, purse: _Purse) -> None:
        try:
            async with purse.lock:
                if purse.left < purse.chunk / 2:
                    await self._lease(principal, purse)
        finally:
            purse.refilling = False

    async def _lease(self, principal: Principal, purse: _Purse) -> None:
        now = self._clock()
        # The last chunk lasted `now - leased` seconds; make the next one last a quarter of a second.
        purse.chunk = max(1.0, purse.chunk * min(4.0, _AHEAD / max(now - purse.leased, 1e-9)))
        purse.leased = now
        needed = purse.wanted - purse.left

        def take() -> tuple[int, Lease]:
            chunk = int(purse.chunk)
            if principal.queries is not None and chunk > max(1, needed):
                # What a killed replica loses, or one replica holds while another has none left, is one in a hundred.
                chunk = min(chunk, (principal.queries - self.store.spent().get(principal.name, 0)) // 100)
            wanted = max(1, needed, chunk)
            return wanted, self.store.lease(principal.name, wanted, time.time())

        wanted, lease = await self._ask(take)
        purse.left += lease.granted
        if lease.granted < wanted:
            purse.spent = lease.wait is None
            # A used-up budget is looked at again when keys are: the operator may have raised it.
            purse.shut = now + (KEEP if lease.wait is None else max(lease.wait, 1e-3))

    async def _ask(self, question: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, question)
        except StoreUnavailable as away:
            raise Unavailable(
                "The gateway cannot reach its store now, and answers nothing that it cannot account for. Ask again."
            ) from away

    def _later(self, work: Coroutine[Any, Any, object]) -> None:
        async def quietly() -> None:
            with contextlib.suppress(Unavailable):  # the next caller asks again, and is told
                await work

        task = asyncio.get_running_loop().create_task(quietly())
        self._background.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(self._background.discard)


def add_key(store: Store, principal: Principal) -> str:
    """Give a principal a new key beside those it has (or make it known), and set its limits; returns the key."""
    key = new_key()
    store.admit(replace(principal, revoked=False), hash_key(key))
    return key


def _key(authorization: str | None) -> str:
    """The key of `Bearer KEY`, or of `Basic` with the key as password, which is what a browser can send."""
    scheme, _, rest = (authorization or "").strip().partition(" ")
    key = rest.strip()
    if scheme.lower() == "basic":
        try:
            key = base64.b64decode(key, validate=True).decode().partition(":")[2]
        except ValueError:  # no base64, no ASCII or no UTF-8
            key = ""
    elif scheme.lower() != "bearer":
        key = ""
    if not key:
        raise Unauthorised("This gateway wants a key: send the header 'Authorization: Bearer KEY'.")
    return key


def _too_many(principal: Principal, rows: int, purse: _Purse, now: float) -> TooMany:
    if purse.spent or principal.rate is None:
        return TooMany(
            f"The budget of '{principal.name}' has {purse.left} queries left, and this request asks {rows}. "
            "Waiting does not help: ask the operator of this gateway for more."
        )
    return TooMany(
        f"'{principal.name}' may ask {principal.rate:g} queries per second. Ask again after the time in Retry-After.",
        retry_after=max(purse.shut - now, (rows - purse.left) / principal.rate),
    )
