"""Any sequence of calls, against plain dictionaries; the store is closed and opened again in between."""

from __future__ import annotations

import tempfile
from hashlib import sha256
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from guard.postgres_server import PostgresServer
from modelkeep.core.errors import GuardError
from modelkeep.guard.store import Event, Principal, open_store

EPOCHS, LABELS, NAMES = st.sampled_from(["e", "f"]), st.integers(0, 2), st.sampled_from(["anna", "ben"])
ROWS = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=3, max_size=3)
QUERIES = st.binary(min_size=1, max_size=2)
KEYS = st.integers(0, 4).map(lambda i: sha256(bytes([i])).digest())


class Machine(RuleBasedStateMachine):
    """A store and the dictionaries that say what it must hold."""

    server: ClassVar[PostgresServer | None] = None

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.url = self.server.emptied() if self.server else f"sqlite:///{self.folder.name}/guard.db"
        self.store = open_store(self.url)
        self.logs: dict[tuple[str, int], list[list[int]]] = {}
        self.answers: dict[tuple[str, bytes], list[int]] = {}
        self.keys: dict[bytes, tuple[str, bool]] = {}
        self.limits: dict[str, int | None] = {}
        self.spent: dict[str, int] = {}
        self.events: list[Event] = []

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.url)

    @rule(epoch=EPOCHS, label=LABELS, offset=st.sampled_from([0, 0, 0, -1, 1]), row=ROWS)
    def append(self, epoch: str, label: int, offset: int, row: list[int]) -> None:
        log = self.logs.setdefault((epoch, label), [])
        position = max(0, len(log) + offset)
        if position > len(log):
            with pytest.raises(GuardError, match="no holes"):
                self.store.append(epoch, label, position, np.array(row, dtype=np.int32))
            return
        assert self.store.append(epoch, label, position, np.array(row, dtype=np.int32)) == (position == len(log))
        if position == len(log):
            log.append(row)

    @rule(epoch=EPOCHS, given=st.dictionaries(QUERIES, ROWS, max_size=4))
    def remember(self, epoch: str, given: dict[bytes, list[int]]) -> None:
        held = self.store.remember(epoch, {query: np.array(row, dtype=np.int32) for query, row in given.items()})
        for query, row in given.items():
            self.answers.setdefault((epoch, query), row)
        assert {query: row.tolist() for query, row in held.items()} == {q: self.answers[epoch, q] for q in given}

    @rule(epoch=EPOCHS, queries=st.lists(QUERIES, max_size=6))
    def recall(self, epoch: str, queries: list[bytes]) -> None:
        kept = {query: row.tolist() for query, row in self.store.recall(epoch, queries).items()}
        assert kept == {q: self.answers[epoch, q] for q in queries if (epoch, q) in self.answers}

    @rule(name=NAMES, key=KEYS, queries=st.none() | st.integers(0, 20))
    def admit(self, name: str, key: bytes, queries: int | None) -> None:
        principal = Principal(name, queries, None)
        if self.keys.setdefault(key, (name, False)) != (name, False):
            with pytest.raises(GuardError, match="Make a new key"):
                self.store.admit(principal, key)
            return
        self.store.admit(principal, key)
        self.limits[name] = queries
        self.spent.setdefault(name, 0)

    @rule(name=NAMES, keep=st.none() | KEYS)
    def revoke(self, name: str, keep: bytes | None) -> None:
        gone = [key for key, owner in self.keys.items() if owner == (name, False) and key != keep]
        assert self.store.revoke(name, keep=keep) == len(gone)
        self.keys |= dict.fromkeys(gone, (name, True))

    @rule(name=NAMES, wanted=st.integers(1, 9))
    def lease(self, name: str, wanted: int) -> None:
        if name not in self.limits:
            with pytest.raises(GuardError, match="no principal"):
                self.store.lease(name, wanted, now=0.0)
            return
        limit = self.limits[name]
        granted = wanted if limit is None else max(0, min(wanted, limit - self.spent[name]))
        assert self.store.lease(name, wanted, now=0.0).granted == granted
        self.spent[name] += granted

    @rule(details=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=3))
    def write(self, details: list[str]) -> None:
        events = [Event(0.5, "anna", "infer", detail) for detail in details]
        self.store.write(events)
        self.events += events

    @invariant()
    def all_is_there(self) -> None:
        for (epoch, label), log in self.logs.items():
            assert self.store.centroids(epoch, label, len(log) // 2).tolist() == log[len(log) // 2 :]
        for epoch in ("e", "f"):
            assert self.store.sizes(epoch) == {k: len(log) for (e, k), log in self.logs.items() if e == epoch and log}
        for key, (name, revoked) in self.keys.items():
            assert self.store.principal(key) == Principal(name, self.limits[name], None, revoked)
        assert self.store.spent() == self.spent
        assert self.store.events(1000) == self.events[::-1]

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


def test_sqlite_does_as_dictionaries_would() -> None:
    run_state_machine_as_test(Machine, settings=settings(max_examples=15, stateful_step_count=25))


def test_postgres_does_as_dictionaries_would(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "server", postgres)
    run_state_machine_as_test(Machine, settings=settings(max_examples=3, stateful_step_count=25))
