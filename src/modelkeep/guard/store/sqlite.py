"""A store in one SQLite file: for one machine, with one process or several on the same file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from modelkeep.guard.store import bucket, rows
from modelkeep.guard.store.sqlite_file import SqliteFile
from modelkeep.guard.store.store import (
    Event,
    Lease,
    Principal,
    check_admission,
    key_taken_error,
    unknown_principal_error,
)


class SqliteStore:
    """A `Store` in the SQLite file `path`, which is made where it does not exist.

    Write-ahead log with full sync: what is acknowledged survives `kill -9` and a loss of power, and nobody can read
    what is not on disk yet.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = SqliteStore(Path(folder) / "guard.db")
    ...     store.append("epoch", 0, 0, np.array([3, 1], dtype=np.int32))
    ...     store.centroids("epoch", 0, 0).tolist()
    ...     store.close()
    True
    [[3, 1]]
    """

    def __init__(self, path: str | Path) -> None:
        self._file = SqliteFile(path)

    def centroids(self, epoch: str, label: int, after: int) -> NDArray[np.int32]:
        with self._file.reading() as db:
            found = db.execute(
                "SELECT position, units, seal FROM centroids WHERE epoch = (SELECT id FROM epochs WHERE name = ?) "
                "AND label = ? AND position >= ? ORDER BY position",
                (epoch, label, after),
            ).fetchall()
            classes = _classes(db, epoch)
        return rows.log(found, classes, epoch, label, after)

    def append(self, epoch: str, label: int, position: int, centroid: NDArray[np.int32]) -> bool:
        content, seal = rows.pack_row(centroid, epoch, label, position)
        rows.check_place(epoch, label, position, len(centroid))
        with self._file.writing() as db:
            number = _epoch(db, epoch, len(centroid))
            (length,) = db.execute(
                "SELECT coalesce(max(position) + 1, 0) FROM centroids WHERE epoch = ? AND label = ?", (number, label)
            ).fetchone()
            if position > length:
                raise rows.hole_error(epoch, label, position, length)
            if position == length:
                db.execute("INSERT INTO centroids VALUES (?, ?, ?, ?, ?)", (number, label, position, content, seal))
        return bool(position == length)

    def recall(self, epoch: str, queries: Sequence[bytes]) -> dict[bytes, NDArray[np.int32]]:
        with self._file.reading() as db:
            return _recall(db, epoch, queries)

    def remember(self, epoch: str, answers: Mapping[bytes, NDArray[np.int32]]) -> dict[bytes, NDArray[np.int32]]:
        if not answers:
            return {}
        sealed = {query: rows.pack_row(units, epoch, query) for query, units in answers.items()}
        with self._file.writing() as db:
            (number,) = {_epoch(db, epoch, classes) for classes in {len(units) for units in answers.values()}}
            db.executemany(
                "INSERT INTO answers VALUES (?, ?, ?, ?)", [(number, query, *row) for query, row in sealed.items()]
            )
            return _recall(db, epoch, list(answers))

    def principal(self, key: bytes) -> Principal | None:
        with self._file.reading() as db:
            found = db.execute(
                "SELECT name, queries, rate, revoked FROM keys JOIN principals USING (name) WHERE key = ?", (key,)
            ).fetchone()
        return None if found is None else _principal(found)

    def principals(self) -> list[Principal]:
        with self._file.reading() as db:
            found = db.execute(
                "SELECT name, queries, rate, min(revoked) FROM keys JOIN principals USING (name) "
                "GROUP BY name ORDER BY name"
            ).fetchall()
        return [_principal(row) for row in found]

    def admit(self, principal: Principal, key: bytes) -> None:
        check_admission(principal, key)
        with self._file.writing() as db:
            db.execute(
                "INSERT INTO principals (name, queries, rate) VALUES (?, ?, ?) "
                "ON CONFLICT (name) DO UPDATE SET queries = excluded.queries, rate = excluded.rate",
                (principal.name, principal.queries, principal.rate),
            )
            db.execute("INSERT INTO keys (key, name) VALUES (?, ?) ON CONFLICT DO NOTHING", (key, principal.name))
            owner = db.execute("SELECT name, revoked FROM keys WHERE key = ?", (key,)).fetchone()
            if owner != (principal.name, 0):
                raise key_taken_error(principal)

    def revoke(self, name: str, *, keep: bytes | None = None) -> int:
        with self._file.writing() as db:
            return db.execute(
                "UPDATE keys SET revoked = 1 WHERE name = ? AND NOT revoked AND key IS NOT ?", (name, keep)
            ).rowcount

    def lease(self, name: str, wanted: int, now: float) -> Lease:
        with self._file.writing() as db:
            found = db.execute(
                "SELECT queries, rate, spent, tokens, refilled FROM principals WHERE name = ?", (name,)
            ).fetchone()
            if found is None:
                raise unknown_principal_error(name)
            account = bucket.Account(*found)
            lease, after = bucket.lease(account, wanted, now)
            if after is not account:
                db.execute(
                    "UPDATE principals SET spent = ?, tokens = ?, refilled = ? WHERE name = ?",
                    (after.spent, after.tokens, after.refilled, name),
                )
            return lease

    def spent(self) -> dict[str, int]:
        with self._file.reading() as db:
            return dict(db.execute("SELECT name, spent FROM principals").fetchall())

    def sizes(self, epoch: str) -> dict[int, int]:
        with self._file.reading() as db:
            return dict(
                db.execute(
                    "SELECT label, count(*) FROM centroids WHERE epoch = (SELECT id FROM epochs WHERE name = ?) "
                    "GROUP BY label",
                    (epoch,),
                ).fetchall()
            )

    def write(self, events: Sequence[Event]) -> None:
        with self._file.writing() as db:
            db.executemany(
                "INSERT INTO events (at, principal, action, detail) VALUES (?, ?, ?, ?)",
                [(event.at, event.principal, event.action, event.detail) for event in events],
            )

    def events(self, limit: int = 100) -> list[Event]:
        with self._file.reading() as db:
            found = db.execute(
                "SELECT at, principal, action, detail FROM events ORDER BY id DESC LIMIT ?", (limit,)
            ).fetchall()
        return [Event(*row) for row in found]

    def close(self) -> None:
        self._file.close()


def _principal(row: tuple[str, int | None, float | None, int]) -> Principal:
    name, queries, rate, revoked = row
    return Principal(name, queries, rate, bool(revoked))


def _classes(db: sqlite3.Connection, epoch: str) -> int:
    """How many classes an epoch has; 0 for one that nothing was written to."""
    found = db.execute("SELECT classes FROM epochs WHERE name = ?", (epoch,)).fetchone()
    return 0 if found is None else int(found[0])


def _epoch(db: sqlite3.Connection, epoch: str, classes: int) -> int:
    """The number of an epoch of that many classes; it begins with its first row."""
    db.execute("INSERT INTO epochs (name, classes) VALUES (?, ?) ON CONFLICT DO NOTHING", (epoch, classes))
    number, known = db.execute("SELECT id, classes FROM epochs WHERE name = ?", (epoch,)).fetchone()
    if known != classes:
        raise rows.classes_error(epoch, known, classes)
    return int(number)


def _recall(db: sqlite3.Connection, epoch: str, queries: Sequence[bytes]) -> dict[bytes, NDArray[np.int32]]:
    answers = {}
    for query in dict.fromkeys(queries):
        found = db.execute(
            "SELECT units, seal, classes FROM answers JOIN epochs ON epoch = id WHERE name = ? AND query = ?",
            (epoch, query),
        ).fetchone()
        if found is not None:
            answers[query] = rows.unpack_row(found[:2], found[2], epoch, query)
    return answers
