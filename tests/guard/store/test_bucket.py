"""The token bucket against what it must never exceed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.core.errors import InputError
from modelkeep.guard.store.bucket import SKEW, Account, lease

RATES = st.floats(0.01, 1000)


@given(
    rate=RATES,
    queries=st.none() | st.integers(0, 50),
    steps=st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 2000)), min_size=1, max_size=30),
)
def test_never_more_than_the_rate_allows(rate: float, queries: int | None, steps: list[tuple[float, int]]) -> None:
    account = Account(queries, rate, 0, None, 0.0)
    start = now = latest = 1.7e9
    total = 0
    for step, wanted in [(0.0, 1), *steps]:
        now = max(latest - SKEW / 2, now + step)  # the clocks of replicas differ
        latest = max(latest, now)
        got, account = lease(account, wanted, now)
        total += got.granted
        assert 0 <= got.granted <= wanted
        assert total == account.spent
        assert total <= max(1, rate) + rate * (latest - start) + 1e-3 + 1e-6 * rate
        assert queries is None or total <= queries
        assert got.wait is not None or total == queries
        assert (got.wait == 0.0) == (got.granted == wanted) or got.wait is None


@given(rate=RATES)
def test_after_the_wait_there_is_one(rate: float) -> None:
    account = Account(None, rate, 0, None, 0.0)
    now = 1.7e9
    for _ in range(20):
        got, account = lease(account, 10**6, now)
        assert got.granted >= 1
        assert got.wait is not None
        now += got.wait + 1e-6 / min(1.0, rate)


def test_a_rate_below_one_still_gives_one() -> None:
    first, account = lease(Account(None, 0.5, 0, None, 0.0), 3, now=10.0)
    assert (first.granted, first.wait) == (1, 2.0)
    assert lease(account, 1, now=11.0)[0].wait == 1.0
    assert lease(account, 1, now=12.0)[0].granted == 1


def test_a_clock_that_was_far_ahead_is_forgotten() -> None:
    _, account = lease(Account(None, 1.0, 0, None, 0.0), 1, now=1e6)
    refused, account = lease(account, 1, now=5.0)
    assert (refused.granted, refused.wait) == (0, 1.0)
    assert lease(account, 1, now=6.0)[0].granted == 1


def test_who_is_refused_costs_no_write() -> None:
    _, account = lease(Account(3, 1.0, 0, None, 0.0), 1, now=5.0)
    assert lease(account, 1, now=5.5)[1] is account


@pytest.mark.parametrize("now", [math.nan, math.inf])
def test_no_time_is_refused(now: float) -> None:
    with pytest.raises(InputError):
        lease(Account(None, 1.0, 0, None, 0.0), 1, now)
