"""What can happen to a database server: it restarts, is gone, is slow, is set up otherwise, refuses us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TypeVar

import numpy as np
import psycopg
import pytest

from guard.postgres_server import PostgresServer
from modelkeep.core.errors import GuardError, StoreUnavailable
from modelkeep.guard.store import postgres_database
from modelkeep.guard.store.postgres import PostgresStore
from modelkeep.guard.store.postgres_database import Connection

T = TypeVar("T")
ROW = np.arange(4, dtype=np.int32)


@pytest.fixture
def dsn(postgres: PostgresServer) -> str:
    """An empty database."""
    return postgres.emptied()


@pytest.fixture
def store(dsn: str) -> Iterator[PostgresStore]:
    """A store with one centroid."""
    with closing(PostgresStore(dsn)) as store:
        store.append("e", 0, 0, ROW)
        yield store


@pytest.fixture
def admin(dsn: str) -> Iterator[psycopg.Connection]:
    """The owner of the database, at work beside the store."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def test_a_restart_goes_unnoticed_by_who_was_idle(store: PostgresStore, postgres: PostgresServer) -> None:
    postgres.restart()
    assert store.append("e", 0, 1, ROW)
    assert len(store.centroids("e", 0, 0)) == 2


def test_while_it_is_gone_it_is_unavailable_and_then_all_goes_on(
    store: PostgresStore, dsn: str, postgres: PostgresServer
) -> None:
    postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"PostgreSQL store \(host 127.0.0.1, .*\) cannot be used now: "):
                store.append("e", 0, 1, ROW)
        with pytest.raises(StoreUnavailable):
            PostgresStore(dsn)
    finally:
        postgres.start()
    assert store.append("e", 0, 1, ROW)


def test_an_append_whose_acknowledgement_was_lost_is_found_in_the_log(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store._database.run
    lost: list[object] = []

    def losing(work: Callable[[Connection], T]) -> T:
        def then_lose(db: Connection) -> T:
            result = work(db)
            if not lost:
                lost.append(result)
                raise psycopg.OperationalError("server closed the connection unexpectedly")
            return result

        return run(then_lose)

    monkeypatch.setattr(store._database, "run", losing)
    assert not store.append("e", 0, 1, ROW + 1)
    assert store.centroids("e", 0, 1).tolist() == [(ROW + 1).tolist()]


def test_a_slow_server_is_not_waited_for_for_ever(
    dsn: str, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_database, "SESSION", postgres_database.SESSION.replace("'10s'", "'100ms'"))
    with closing(PostgresStore(dsn)) as store:
        assert store.append("e", 0, 0, ROW)
        with admin.transaction():
            admin.execute("LOCK TABLE modelkeep.centroids")
            with pytest.raises(StoreUnavailable, match="statement timeout"):
                store.append("e", 0, 1, ROW)
        assert store.append("e", 0, 1, ROW)


def test_our_promises_do_not_rest_on_the_servers_settings(postgres: PostgresServer, admin: psycopg.Connection) -> None:
    dsn = postgres.database()
    name = dsn.rpartition("/")[2]
    admin.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())
    admin.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = serializable".encode())
    with closing(PostgresStore(dsn)) as store:
        assert store._database.ask("SHOW synchronous_commit") == [("on",)]
        assert store._database.ask("SHOW transaction_isolation") == [("read committed",)]
    admin.execute(f"ALTER DATABASE {name} SET synchronous_commit = remote_apply".encode())
    with closing(PostgresStore(dsn)) as store:
        assert store._database.ask("SHOW synchronous_commit") == [("remote_apply",)]


@pytest.mark.parametrize("table", ["epochs", "centroids", "answers", "events"])
@pytest.mark.parametrize("change", ["DELETE FROM {}", "TRUNCATE {} CASCADE", "UPDATE {} SET {column} = {column}"])
def test_the_database_refuses_to_forget(
    store: PostgresStore, admin: psycopg.Connection, table: str, change: str
) -> None:
    column = {"epochs": "classes", "events": "at"}.get(table, "units")
    with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
        admin.execute(change.format(f"modelkeep.{table}", column=column).encode())
    assert len(store.centroids("e", 0, 0)) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param("UPDATE modelkeep.centroids SET position = 1", "no centroid at position 0", id="gone"),
        pytest.param("UPDATE modelkeep.centroids SET units = '\\x00'", "1 bytes; 4 classes", id="cut"),
        pytest.param("UPDATE modelkeep.centroids SET seal = '\\x00'", "not what was written", id="seal"),
    ],
)
def test_a_damaged_row_is_never_an_answer(
    store: PostgresStore, admin: psycopg.Connection, change: str, said: str
) -> None:
    admin.execute("DROP TRIGGER append_only ON modelkeep.centroids")
    admin.execute(change.encode())
    with pytest.raises(GuardError, match=f"damaged.*{said}"):
        store.centroids("e", 0, 0)


def test_a_newer_version_is_refused(store: PostgresStore, dsn: str, admin: psycopg.Connection) -> None:
    admin.execute("UPDATE modelkeep.version SET version = 2")
    with pytest.raises(GuardError, match="has version 2 of the store's tables"):
        PostgresStore(dsn)


def test_a_role_that_may_not_write_is_told_so(store: PostgresStore, dsn: str, admin: psycopg.Connection) -> None:
    admin.execute("DROP ROLE IF EXISTS reader")
    admin.execute("CREATE ROLE reader LOGIN")
    with pytest.raises(GuardError, match="permission denied for schema modelkeep"):
        PostgresStore(dsn.replace("postgres@", "reader@"))


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("postgresql://anna:secret@127.0.0.1:{port}/nowhere", id="no database"),
        pytest.param("postgresql://anna:secret@127.0.0.1:1/postgres", id="no server"),
        pytest.param("postgresql://anna:secret@127.0.0.1:{port}/postgres?color=secret", id="no option"),
        pytest.param("postgresql://anna:secret@[127.0.0.1/postgres", id="no address"),
    ],
)
def test_an_address_that_leads_nowhere_does_not_tell_the_password(postgres: PostgresServer, address: str) -> None:
    with pytest.raises(GuardError) as told:
        PostgresStore(address.format(port=postgres.port))
    assert "secret" not in str(told.value)
    assert str(told.value).endswith(".")
