"""Keys and leases, against a real store: who is let in, how much they get, and how rarely the store is asked."""

from __future__ import annotations

import asyncio
import base64
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkeep.core.errors import StoreUnavailable
from modelkeep.guard.gateway import principals as module
from modelkeep.guard.gateway.principals import KEEP, OPERATOR, Principals, add_key, hash_key, new_key
from modelkeep.guard.refusals import TooLarge, TooMany, Unauthorised, Unavailable
from modelkeep.guard.store.sqlite import SqliteStore
from modelkeep.guard.store.store import Lease, Principal


class Watched(SqliteStore):
    """A real store that counts its calls, and can be away."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.calls: list[str] = []
        self.away = False

    def principal(self, key: bytes) -> Principal | None:
        self._called("principal")
        return super().principal(key)

    def lease(self, name: str, wanted: int, now: float) -> Lease:
        self._called("lease")
        return super().lease(name, wanted, now)

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.away:
            raise StoreUnavailable("The disk is gone.")


class Clock:
    """A clock that is set by hand, for the lookups and for the store's leases."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Watched]:
    store = Watched(tmp_path / "state.sqlite3")
    yield store
    store.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.time", clock)
    return clock


def bearer(key: str) -> str:
    return f"Bearer {key}"


async def refusal(principals: Principals, principal: Principal, rows: int = 1) -> TooMany | None:
    try:
        await principals.spend(principal, rows)
    except TooMany as refusal:
        return refusal
    return None


def test_keys_are_readable_random_and_never_stored(store: Watched, tmp_path: Path) -> None:
    keys = [add_key(store, Principal(f"p{i}", None, None)) for i in range(20)]
    assert len(set(keys)) == 20
    assert all(key.startswith("mk_") and len(key) >= 3 + math.ceil(256 / 6) for key in keys)
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert all(key.encode() not in kept and key[3:].encode() not in kept for key in keys)
    assert hash_key(keys[0]) in kept


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer mk_unknown",
        "Basic !!!",
        "Basic " + base64.b64encode(b"\xff\xfe").decode(),
        "Digest x",
        "mk_unknown",
        "Bearer " + "x" * 100_000,
        "Bearer \u2603",
    ],
    ids=lambda header: str(header)[:20].encode("unicode_escape").decode() or "empty",
)
def test_who_has_no_key_is_refused(store: Watched, header: str | None) -> None:
    async def ask() -> None:
        with pytest.raises(Unauthorised):
            await Principals(store).admit(header)

    asyncio.run(ask())


def test_a_key_is_looked_up_once_in_two_seconds_and_refreshed_before(store: Watched, clock: Clock) -> None:
    key = add_key(store, Principal("alice", 10, None))

    async def ask() -> None:
        principals = Principals(store, clock=clock)
        for _ in range(100):
            assert (await principals.admit(bearer(key))).name == "alice"
        assert store.calls == ["principal"]
        clock.now += 1.5  # old enough to look again, young enough not to wait for it
        await principals.admit(bearer(key))
        await principals.close()
        assert store.calls == ["principal"] * 2
        await principals.admit(bearer(key))

    asyncio.run(ask())


def test_a_browser_may_send_the_key_as_a_password(store: Watched) -> None:
    key = add_key(store, Principal("alice", None, None))
    header = "Basic " + base64.b64encode(f"anything:{key}".encode()).decode()
    assert asyncio.run(Principals(store).admit(header)).name == "alice"


def test_a_rotated_key_works_at_once_and_a_revoked_one_stops_within_two_seconds(store: Watched, clock: Clock) -> None:
    old = add_key(store, Principal("alice", None, None))

    async def ask() -> None:
        principals = Principals(store, clock=clock)
        await principals.admit(bearer(old))
        new = add_key(store, Principal("alice", None, None))
        assert (await principals.admit(bearer(new))).name == "alice"
        assert (await principals.admit(bearer(old))).name == "alice"
        store.revoke("alice", keep=hash_key(new))
        clock.now += KEEP
        with pytest.raises(Unauthorised, match="revoked"):
            await principals.admit(bearer(old))
        await principals.admit(bearer(new))

    asyncio.run(ask())


def test_unknown_keys_do_not_fill_the_memory(store: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHED", 8)

    async def ask() -> None:
        principals = Principals(store)
        for _ in range(30):
            with pytest.raises(Unauthorised):
                await principals.admit(bearer(new_key()))
        assert len(principals._known) <= 8

    asyncio.run(ask())


def test_the_operators_key_opens_the_metrics_and_no_model(store: Watched) -> None:
    operators = add_key(store, Principal(OPERATOR, None, None))
    alices = add_key(store, Principal("alice", None, None))

    async def ask() -> None:
        for principals in (Principals(store), Principals(store, open=True)):
            assert (await principals.operator(bearer(operators))).name == OPERATOR
            for header in (None, bearer(alices), bearer("mk_unknown")):
                with pytest.raises(Unauthorised):
                    await principals.operator(header)
        with pytest.raises(Unauthorised):
            await Principals(store).admit(bearer(operators))

    asyncio.run(ask())


def test_an_open_gateway_has_one_principal_and_counts_what_it_asks(store: Watched) -> None:
    async def ask() -> None:
        principals = Principals(store, open=True)
        for header in (None, "Bearer mk_unknown"):
            anybody = await principals.admit(header)
            assert anybody.name == "anonymous"
            await principals.spend(anybody, 7)
        await principals.close()

    asyncio.run(ask())
    assert store.spent()["anonymous"] >= 14


def test_a_budget_is_spent_to_the_last_query_and_never_further(store: Watched, clock: Clock) -> None:
    add_key(store, Principal("alice", 1000, None))
    alice = Principal("alice", 1000, None)

    async def ask() -> int:
        # Two replicas, forty clients each: more is wanted than there is.
        replicas = [Principals(store, clock=clock) for _ in range(2)]

        async def client(number: int) -> int:
            got = 0
            for _ in range(20):
                refused = await refusal(replicas[number % 2], alice)
                assert refused is None or refused.retry_after is None
                assert refused is None or "Waiting does not help" in refused.message
                got += refused is None
            return got

        total = sum(await asyncio.gather(*(client(number) for number in range(80))))
        for replica in replicas:
            await replica.close()
        return total

    total = asyncio.run(ask())
    # What is not spent is what one replica still holds: at most a hundredth of what was left, per replica.
    assert 980 <= total <= 1000
    assert store.spent()["alice"] <= 1000
    assert store.calls.count("lease") < 400  # of 1,600 requests


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(1, 10), st.floats(0, 0.5)), min_size=1, max_size=30))
def test_a_rate_is_kept_over_every_second_and_retry_after_is_honest(asked: list[tuple[int, float]]) -> None:
    clock = Clock()
    alice = Principal("alice", None, 10.0)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr("time.time", clock)
        store = SqliteStore(Path(folder) / "state.sqlite3")
        add_key(store, alice)

        async def ask() -> list[tuple[float, int]]:
            principals, granted = Principals(store, clock=clock), []
            for rows, pause in asked:
                clock.now += pause
                refused = await refusal(principals, alice, rows)
                if refused is not None:
                    assert refused.retry_after is not None
                    assert refused.retry_after <= 1.1  # a second fills the bucket
                    clock.now += refused.retry_after + 1e-4
                    await principals.spend(alice, rows)  # whoever waits as told is served
                granted.append((clock.now, rows))
                await asyncio.gather(*principals._background)
            await principals.close()
            return granted

        granted = asyncio.run(ask())
        store.close()
    for first, (start, _) in enumerate(granted):
        for last in range(first, len(granted)):
            rows = sum(rows for _, rows in granted[first : last + 1])
            # A full bucket, what a lease was ahead (a quarter of a second, a request), and the rate since.
            assert rows <= 10 + 10 + 10 * (granted[last][0] - start) + 1e-6


def test_whoever_is_over_the_rate_does_not_cost_the_store(store: Watched, clock: Clock) -> None:
    alice = Principal("alice", None, 5.0)
    add_key(store, alice)

    async def ask() -> None:
        principals = Principals(store, clock=clock)
        for _ in range(200):
            refused = await refusal(principals, alice)
            assert refused is None or refused.headers == {"Retry-After": "1"}
        await principals.close()

    asyncio.run(ask())
    assert store.calls.count("lease") <= 7
    assert store.spent()["alice"] == 5


def test_few_requests_take_only_what_they_need(store: Watched, clock: Clock) -> None:
    add_key(store, Principal("alice", 100, None))

    async def ask() -> None:
        principals = Principals(store, clock=clock)
        for _ in range(10):
            await principals.spend(Principal("alice", 100, None), 3)
            clock.now += 60
        await principals.close()

    asyncio.run(ask())
    assert store.spent()["alice"] == 30


def test_much_traffic_is_leased_ahead_and_refilled_before_it_is_used_up(store: Watched, clock: Clock) -> None:
    alice = Principal("alice", None, None)
    add_key(store, alice)

    async def ask() -> None:
        principals = Principals(store, clock=clock)
        for _ in range(4000):  # two thousand per second
            await principals.spend(alice, 1)
            clock.now += 0.0005
            await asyncio.sleep(0)
        await principals.close()

    asyncio.run(ask())
    assert store.calls.count("lease") < 80
    assert 4000 <= store.spent()["alice"] <= 4000 + 2 * 2000


def test_a_raised_budget_is_noticed_without_a_restart(store: Watched, clock: Clock) -> None:
    key = add_key(store, Principal("alice", 2, None))

    async def ask() -> None:
        principals = Principals(store, clock=clock)
        await principals.spend(await principals.admit(bearer(key)), 2)
        with pytest.raises(TooMany):
            await principals.spend(await principals.admit(bearer(key)), 1)
        add_key(store, Principal("alice", 10, None))
        clock.now += KEEP
        await principals.spend(await principals.admit(bearer(key)), 1)
        await principals.close()

    asyncio.run(ask())


def test_a_store_that_is_away_refuses_and_comes_back(store: Watched, clock: Clock) -> None:
    key = add_key(store, Principal("alice", None, None))

    async def ask() -> None:
        principals = Principals(store, clock=clock)
        store.away = True
        with pytest.raises(Unavailable) as refusal:
            await principals.admit(bearer(key))
        assert refusal.value.headers == {"Retry-After": "1"}
        assert "disk" not in refusal.value.message  # what the store said is not for clients
        with pytest.raises(Unavailable):
            await principals.spend(Principal("alice", None, None), 1)
        store.away = False
        await principals.spend(await principals.admit(bearer(key)), 1)
        # While it is away only for a moment, those who were just looked up do not notice.
        store.away = True
        clock.now += 1.5
        await principals.admit(bearer(key))
        await principals.close()

    asyncio.run(ask())


def test_a_request_that_can_never_be_granted_says_so(store: Watched) -> None:
    add_key(store, Principal("alice", None, 5.0))

    async def ask() -> None:
        with pytest.raises(TooLarge, match=r"6 rows.*5 per second.*smaller parts"):
            await Principals(store).spend(Principal("alice", None, 5.0), 6)

    asyncio.run(ask())
