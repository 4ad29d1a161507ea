"""LedgerFile: the SQLite file of one party's ledger, in which every change is whole or not made."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any

from modelkeep.core.databases import write_ahead
from modelkeep.core.errors import GovernError, PartyUnavailable
from modelkeep.govern.ledger.reader import APPLICATION, FORMAT

_PATIENCE = 30.0  # seconds that a change waits for a lock; readers hold one only for moments
_TABLES = """
CREATE TABLE about (party TEXT NOT NULL, public_key TEXT NOT NULL, committed INTEGER NOT NULL, syncs INTEGER NOT NULL);
CREATE TABLE entries (number INTEGER PRIMARY KEY, line TEXT NOT NULL);
CREATE TABLE events (number INTEGER PRIMARY KEY, line TEXT NOT NULL)
"""
# What format 2 adds. `attempts` says of each pass that was begun how it ended (NULL: it has not), and what had come
# by then (NULL: that is not known). `receipts` are events of the other parties.
_TABLES_2 = """
CREATE TABLE attempts (
    name TEXT PRIMARY KEY, pass TEXT NOT NULL, number INTEGER NOT NULL, purpose TEXT NOT NULL, ended TEXT, received TEXT
);
CREATE INDEX attempts_of_pass ON attempts (pass);
CREATE INDEX attempts_by_purpose ON attempts (purpose, pass);
CREATE TABLE receipts (party TEXT NOT NULL, number INTEGER NOT NULL, line TEXT NOT NULL, PRIMARY KEY (party, number))
"""


class LedgerFile:
    """The file at `path`, made for `party` and its key if there is none. Threads of one process may share it."""

    def __init__(self, path: Path, party: str, public_key: str) -> None:
        self.path, self.party = path, party
        self.lock = RLock()
        self.changing = False
        with ExitStack() as refused:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                # Autocommit, because change() opens each transaction itself.
                self._database = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
                refused.callback(self._database.close)
                self._open(public_key)
            except (sqlite3.Error, OSError) as error:
                raise GovernError(f"The file '{path}' cannot be used as a ledger: {error}.") from error
            refused.pop_all()

    def _open(self, key: str) -> None:
        # Before anything is written: a file that is something else must stay as it is.
        application, version = self.value("PRAGMA application_id"), self.value("PRAGMA user_version")
        fresh = self.value("SELECT count(*) FROM sqlite_master") == 0
        if not fresh and application != APPLICATION:
            raise GovernError(f"'{self.path}' is a SQLite database, but no ledger of passes. Choose another file.")
        if not fresh and version not in range(1, FORMAT + 1):
            raise GovernError(f"The ledger '{self.path}' has format {version}; this version reads format {FORMAT}.")
        write_ahead(self._database, _PATIENCE)
        self._database.execute("PRAGMA synchronous = NORMAL")
        if fresh:
            with self.change():
                self._make(_TABLES)
                self.execute("INSERT INTO about VALUES (?, ?, 0, 0)", self.party, key)
                self.execute(f"PRAGMA application_id = {APPLICATION}")
                self.execute("PRAGMA user_version = 1")
            version = 1
        owner, owner_key = self.rows("SELECT party, public_key FROM about")[0]
        if owner != self.party:
            raise GovernError(f"'{self.path}' is the ledger of '{owner}', not of '{self.party}'.")
        if owner_key != key:
            raise GovernError(
                f"The ledger '{self.path}' is signed with another key: {owner_key[:16]}…, not {key[:16]}…. "
                "Go on with that key, or begin a new agreement with a new ledger."
            )
        self.format = version

    def upgrade(self) -> None:
        """Make the tables that format 1 does not have."""
        self._make(_TABLES_2)
        self.execute(f"PRAGMA user_version = {FORMAT}")
        self.format = FORMAT

    def _make(self, tables: str) -> None:
        for statement in tables.split(";"):
            self.execute(statement)

    def close(self) -> None:
        """Close the file."""
        with self.lock:
            self._database.close()

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a query finds."""
        try:
            with self.lock:
                return self._database.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise GovernError(f"The ledger '{self.path}' cannot be read: {error}.") from error

    def value(self, query: str) -> int:
        """The one number that a query finds."""
        found: int = self._database.execute(query).fetchone()[0]
        return found

    def execute(self, statement: str, *values: Any) -> None:
        """A statement of a change."""
        self._database.execute(statement, values)

    @contextmanager
    def change(self) -> Iterator[None]:
        """One transaction; a change within a change is a part of it."""
        with self.lock:
            if self.changing:
                yield
                return
            self.changing = True
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield
                self._database.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):  # SQLite may have rolled back already
                    self._database.execute("ROLLBACK")
                if not isinstance(error, sqlite3.Error):
                    raise
                raise PartyUnavailable(
                    f"The ledger '{self.path}' cannot be written: {error}. What it held is all there and nothing was "
                    "added; see to the disk, then the same pass may run again."
                ) from error
            finally:
                self.changing = False

    def sync(self) -> None:
        """Make all that was written survive a loss of power: one change that is written through, and with it all."""
        with self.lock:
            try:
                self._database.execute("PRAGMA synchronous = FULL")
                with self.change():
                    self.execute("UPDATE about SET syncs = syncs + 1")
            finally:
                self._database.execute("PRAGMA synchronous = NORMAL")
