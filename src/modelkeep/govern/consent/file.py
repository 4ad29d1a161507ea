"""ConsentFile: a SQLite file that several processes change, each change whole and on disk, errors told in sentences."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from modelkeep.core.errors import ConsentPending, GovernError

APPLICATION = 0x6D6B6763  # marks a SQLite file as one of consents: "mkgc"
VERSION = 1
PATIENCE = 5.0  # seconds to wait for another process that writes
# What may pass without a change to the file; all else is damage.
PASSING = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
)


class ConsentFile:
    """The file at `path`, made with the tables of `schema` where it does not exist; `later` are added to any.

    A process killed in the middle of a change leaves the state before it. A rollback journal and no write-ahead log:
    two processes write here, and before SQLite 3.51.3 a write-ahead log could, rarely, be damaged by that.
    """

    def __init__(self, path: Path, schema: str, later: str) -> None:
        self._path = path.absolute()
        self._name = str(self._path)  # faster to look up than a Path, and that is done at every pass
        self._lock = threading.Lock()
        with self._translate_errors():
            # One thread at a time uses the connection (our lock); transactions are begun and ended by hand.
            self._db = sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(schema, later)
                self._identity = self._of_path()
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, to read what all processes have changed until now."""
        with self._translate_errors(), self._lock:
            self._check_same()
            yield self._db

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, alone among all threads and processes; on disk when this ends without an exception."""
        with self._translate_errors(), self._lock:
            self._check_same()
            with _transaction(self._db):
                yield self._db

    def _prepare(self, schema: str, later: str) -> None:
        # Before anything is written: a file that is something else must stay as it is.
        self._db.execute("PRAGMA synchronous = EXTRA")  # the removal of the journal, which is the commit, is synced too
        with _transaction(self._db):
            (application,) = self._db.execute("PRAGMA application_id").fetchone()
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if not self._db.execute("SELECT 1 FROM sqlite_schema").fetchone():
                for statement in schema.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {APPLICATION}")
                self._db.execute(f"PRAGMA user_version = {VERSION}")
            elif application != APPLICATION:
                raise GovernError(f"'{self._path}' is a SQLite database, but holds no consents. Choose another file.")
            elif version != VERSION:
                raise GovernError(
                    f"The consents in '{self._path}' have format {version}; this version of modelkeep reads {VERSION}."
                )
            self._db.execute(later)

    def _of_path(self) -> tuple[int, int] | None:
        """Which file has the name now."""
        try:
            found = os.stat(self._name)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _check_same(self) -> None:
        """A withdrawal goes to the file that has the name; a process that still reads another one would not see it."""
        if self._of_path() != self._identity:
            raise GovernError(
                f"The consents in '{self._path}' were moved, removed or replaced while they were in use, so it is not "
                "known what was withdrawn. Put the file back and start the party again."
            )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """SQLite's errors as sentences. Without knowing whether consent was withdrawn, a party does not consent."""
        try:
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in PASSING:  # the low byte is the kind
                raise ConsentPending(f"The consents in '{self._path}' cannot be used now: {error}.") from error
            raise GovernError(
                f"The consents in '{self._path}' cannot be used: {error}. If the file is damaged, restore it from a "
                "backup, or remove it: then nothing is withdrawn and nothing approved."
            ) from error


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # some errors have rolled back already
            db.execute("ROLLBACK")
        raise
