"""Many threads with connections of their own: one wins, all see the same, no budget is overdrawn."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import TypeVar

import numpy as np

from modelkeep.guard.store import Principal, Store, open_store

T = TypeVar("T")
THREADS = 6


def at_once(stores: list[Store], work: Callable[[Store, int], T]) -> list[T]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda i: work(stores[i % len(stores)], i), range(THREADS)))


def test_one_of_many_appenders_wins(store: Store, url: str) -> None:
    other = open_store(url)
    for position in range(10):
        won = at_once(
            [store, other],
            lambda s, i, p=position: s.append("e", 0, p, np.array([i, p], dtype=np.int32)),  # type: ignore[misc]
        )
        assert sum(won) == 1
        assert store.centroids("e", 0, position).tolist() == [[won.index(True), position]]
    other.close()


def test_all_see_the_answer_that_was_first(store: Store, url: str) -> None:
    other = open_store(url)
    queries = [sha256(bytes([i])).digest() for i in range(50)]

    def work(one: Store, i: int) -> dict[bytes, list[int]]:
        mine = queries[i * 5 :] + queries[: i * 5]  # in another order each, so that they meet in the middle
        return {
            q: u.tolist() for q, u in one.remember("e", {q: np.array([i, 1], dtype=np.int32) for q in mine}).items()
        }

    seen = at_once([store, other], work)
    assert all(answers == seen[0] for answers in seen)
    assert {q: units.tolist() for q, units in other.recall("e", queries).items()} == seen[0]
    other.close()


def test_leases_never_overdraw(store: Store, url: str) -> None:
    other = open_store(url)
    store.admit(Principal("anna", queries=100, rate=None), bytes(32))
    granted = at_once([store, other], lambda s, _: sum(s.lease("anna", 3, now=0.0).granted for _ in range(8)))
    assert sum(granted) == 100 == store.spent()["anna"]
    store.admit(Principal("ben", queries=None, rate=10.0), bytes(31) + b"b")
    granted = at_once([store, other], lambda s, _: sum(s.lease("ben", 1, now=5.0).granted for _ in range(4)))
    assert sum(granted) == 10
    other.close()


def test_many_open_a_new_store_at_once(url: str) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        stores = list(pool.map(open_store, [url] * THREADS))
    won = at_once(stores, lambda s, i: s.append("e", 0, 0, np.array([i, 0], dtype=np.int32)))
    assert sum(won) == 1
    for store in stores:
        store.close()
