"""What every store promises, asked of both."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest
from numpy.typing import NDArray

from modelkeep.core.errors import GuardError, InputError
from modelkeep.guard.store import Event, Lease, Principal, Store, open_store

ANNA = Principal("anna", queries=10, rate=None)
KEY, OTHER, THIRD = (sha256(word).digest() for word in (b"one", b"two", b"three"))


def row(*units: int) -> NDArray[np.int32]:
    return np.array(units, dtype=np.int32)


def test_a_log_grows_in_order_per_epoch_and_class(store: Store) -> None:
    assert store.centroids("e", 1, 0).shape == (0, 0)
    assert store.append("e", 1, 0, row(1, -2, 3))
    assert store.append("e", 1, 1, row(4, 5, 2**31 - 1))
    assert store.append("e", 2, 0, row(7, 8, 9))
    assert store.append("other", 1, 0, row(1, 0))
    np.testing.assert_array_equal(store.centroids("e", 1, 0), [[1, -2, 3], [4, 5, 2**31 - 1]])
    np.testing.assert_array_equal(store.centroids("e", 1, 1), [[4, 5, 2**31 - 1]])
    assert store.centroids("e", 1, 2).shape == (0, 3)
    assert store.centroids("e", 0, 0).shape == (0, 3)
    assert store.centroids("e", 1, 0).dtype == np.int32
    assert store.sizes("e") == {1: 2, 2: 1}
    assert store.sizes("unknown") == {}


def test_a_taken_position_is_lost_and_one_beyond_the_end_an_error(store: Store) -> None:
    assert store.append("e", 0, 0, row(1, 2))
    assert not store.append("e", 0, 0, row(3, 4))
    assert not store.append("e", 0, 0, row(1, 2))
    for _ in range(2):
        with pytest.raises(GuardError, match="position 3 of class 0 of epoch e: the log holds 1 centroids"):
            store.append("e", 0, 3, row(1, 2))
    with pytest.raises(GuardError, match="holds 0 centroids"):
        store.append("new", 0, 1, row(1, 2))
    np.testing.assert_array_equal(store.centroids("e", 0, 0), [[1, 2]])


def test_an_epoch_has_one_number_of_classes(store: Store) -> None:
    store.append("e", 0, 0, row(1, 2))
    with pytest.raises(GuardError, match="Epoch e has 2 classes"):
        store.append("e", 0, 1, row(1, 2, 3))
    with pytest.raises(GuardError, match="Epoch e has 2 classes"):
        store.remember("e", {b"q": row(1, 2, 3)})
    with pytest.raises(GuardError, match="classes"):
        store.remember("fresh", {b"q": row(1, 2, 3), b"p": row(1, 2)})
    assert store.recall("fresh", [b"q", b"p"]) == {}
    assert store.sizes("e") == {0: 1}


@pytest.mark.parametrize(
    ("label", "position", "centroid"),
    [
        pytest.param(2, 0, row(1, 2), id="label"),
        pytest.param(-1, 0, row(1, 2), id="negative label"),
        pytest.param(0, -1, row(1, 2), id="position"),
        pytest.param(0, 0, row(1, 2).astype(np.int64), id="dtype"),
        pytest.param(0, 0, row(1, 2)[None], id="shape"),
        pytest.param(0, 0, row(), id="empty"),
    ],
)
def test_what_is_no_centroid_is_refused(store: Store, label: int, position: int, centroid: NDArray[np.int32]) -> None:
    with pytest.raises(InputError):
        store.append("e", label, position, centroid)
    assert store.sizes("e") == {}


def test_the_first_answer_stays(store: Store) -> None:
    assert store.recall("e", [b"q"]) == {}
    assert store.remember("e", {}) == {}
    assert store.remember("e", {b"q": row(1, 2)})[b"q"].tolist() == [1, 2]
    held = store.remember("e", {b"q": row(5, 6), b"\x00{\xff": row(3, 4)})
    assert {query: units.tolist() for query, units in held.items()} == {b"q": [1, 2], b"\x00{\xff": [3, 4]}
    kept = store.recall("e", [b"q", b"unknown", b"\x00{\xff", b"q"])
    assert {query: units.tolist() for query, units in kept.items()} == {b"q": [1, 2], b"\x00{\xff": [3, 4]}
    assert store.recall("other", [b"q"]) == {}
    assert store.recall("e", []) == {}


def test_all_is_there_after_opening_again(store: Store, url: str) -> None:
    store.append("e", 0, 0, row(1, 2))
    store.remember("e", {b"q": row(3, 4)})
    store.admit(ANNA, KEY)
    store.lease("anna", 4, now=0.0)
    store.write([Event(1.5, "anna", "infer", "{}")])
    store.close()
    again = open_store(url)
    assert again.centroids("e", 0, 0).tolist() == [[1, 2]]
    assert again.recall("e", [b"q"])[b"q"].tolist() == [3, 4]
    assert again.principal(KEY) == ANNA
    assert again.spent() == {"anna": 4}
    assert again.events() == [Event(1.5, "anna", "infer", "{}")]
    again.close()
    for _ in range(2):
        with pytest.raises(GuardError, match="was closed"):
            again.append("e", 0, 1, row(1, 2))
        with pytest.raises(GuardError, match="was closed"):
            again.sizes("e")


def test_keys_rotate_and_are_revoked(store: Store) -> None:
    assert store.principal(KEY) is None
    store.admit(ANNA, KEY)
    store.admit(ANNA, KEY)  # twice is as good as once
    store.admit(Principal("anna", queries=None, rate=2.5), OTHER)
    store.admit(Principal("Zoe", queries=0, rate=None), THIRD)
    assert store.principal(KEY) == store.principal(OTHER) == Principal("anna", None, 2.5)
    assert store.principals() == [Principal("Zoe", 0, None), Principal("anna", None, 2.5)]
    assert store.revoke("anna", keep=OTHER) == 1
    assert store.revoke("anna", keep=OTHER) == 0
    assert store.principal(KEY) == Principal("anna", None, 2.5, revoked=True)
    assert store.principal(OTHER) == Principal("anna", None, 2.5)
    assert not store.principals()[1].revoked
    assert store.revoke("anna") == 1
    assert store.principals() == [Principal("Zoe", 0, None), Principal("anna", None, 2.5, revoked=True)]
    assert store.revoke("nobody") == 0


def test_a_key_is_given_out_once(store: Store) -> None:
    store.admit(ANNA, KEY)
    with pytest.raises(GuardError, match="cannot be given to 'ben'"):
        store.admit(Principal("ben", None, None), KEY)
    store.revoke("anna")
    with pytest.raises(GuardError, match="it was revoked"):
        store.admit(Principal("anna", 999, None), KEY)
    assert store.principals() == [Principal("anna", 10, None, revoked=True)]


@pytest.mark.parametrize(
    ("principal", "key"),
    [
        pytest.param(Principal("", None, None), KEY, id="name"),
        pytest.param(Principal("anna", -1, None), KEY, id="queries"),
        pytest.param(Principal("anna", None, 0.0), KEY, id="rate"),
        pytest.param(Principal("anna", None, float("nan")), KEY, id="nan"),
        pytest.param(Principal("anna", None, None, revoked=True), KEY, id="revoked"),
        pytest.param(Principal("anna", None, None), b"the key itself", id="key"),
    ],
)
def test_an_impossible_principal_is_refused(store: Store, principal: Principal, key: bytes) -> None:
    with pytest.raises(InputError):
        store.admit(principal, key)
    assert store.principals() == []


def test_leases_come_off_the_budget_and_the_rate(store: Store) -> None:
    store.admit(Principal("anna", queries=7, rate=4.0), KEY)
    assert store.lease("anna", 3, now=100.0) == Lease(3, 0.0)
    assert store.lease("anna", 3, now=100.0) == Lease(1, 0.25)
    assert store.lease("anna", 3, now=100.125) == Lease(0, 0.125)
    assert store.lease("anna", 3, now=100.25) == Lease(1, 0.25)
    assert store.lease("anna", 9, now=200.0) == Lease(2, None)
    assert store.lease("anna", 1, now=300.0) == Lease(0, None)
    assert store.spent() == {"anna": 7}
    store.admit(Principal("anna", queries=8, rate=None), KEY)  # one more, at any rate
    assert store.lease("anna", 5, now=300.0) == Lease(1, None)
    with pytest.raises(GuardError, match="no principal 'ben'"):
        store.lease("ben", 1, now=0.0)
    with pytest.raises(InputError):
        store.lease("anna", 0, now=0.0)


def test_events_newest_first(store: Store) -> None:
    store.write([])
    store.write([Event(float(i), "anna", "admit", f'{{"ü": {i}}}') for i in range(5)])
    store.write([Event(9.0, "ben", "revoke", "{}")])
    assert [event.at for event in store.events(3)] == [9.0, 4.0, 3.0]
    assert store.events()[1] == Event(4.0, "anna", "admit", '{"ü": 4}')
