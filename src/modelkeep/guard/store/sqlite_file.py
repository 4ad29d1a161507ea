"""One SQLite file: made whole, opened with full sync, written by one at a time, and its errors told in sentences."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from modelkeep.core.databases import write_ahead
from modelkeep.core.errors import GuardError, StoreUnavailable
from modelkeep.guard.store.connections import Connections
from modelkeep.guard.store.schema import SQLITE, check_version

PATIENCE = 10.0  # seconds to wait for another writer
_READERS = 8
# What may pass without a change to the file; all else is damage, or a mistake of ours.
PASSING = {
    sqlite3.SQLITE_BUSY: f"another process has been writing to it for {PATIENCE:g} seconds",
    sqlite3.SQLITE_LOCKED: "another connection holds it",
    sqlite3.SQLITE_FULL: "the disk is full; free some space",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write; look at the system's log",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; look at the permissions of the file and of its folder",
    sqlite3.SQLITE_PERM: "there is no permission to use it",
    sqlite3.SQLITE_READONLY: "there is no permission to write to it; the file and its folder must be writable",
}


class SqliteFile:
    """Transactions on the file `path`, which is made where it does not exist: one writer and many readers.

    Several processes may share the file. SQLite before 3.51.3 may then, very rarely, damage it (its "WAL-reset bug",
    when one process commits during another's checkpoint); one process alone never does.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        with self._translate_errors():
            if not self.path.exists():
                _create(self.path)
            if not self.path.stat().st_size:
                raise GuardError(
                    f"{self.path} is empty, so it was truncated or never a store. Restore it from a backup, or "
                    "remove it to start from nothing (answers may then differ from those given before)."
                )
            self._lock = threading.Lock()
            self._writer = self._connect()
            self._identity = self._of_path()
            try:
                self._check()
            except BaseException:
                self._writer.close()
                raise
        self._readers = Connections(self._connect, most=_READERS, patience=PATIENCE)

    def close(self) -> None:
        """Close all connections."""
        self._readers.close()
        with self._lock:
            self._writer.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection to read with, while others read and write."""
        with self._translate_errors(), self._readers.use() as db:
            yield db

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, alone among all threads and processes; on disk when this ends without an exception."""
        with self._translate_errors(), self._lock:
            if self._of_path() != self._identity:  # what is written to a file without a name is lost at the end
                raise StoreUnavailable(
                    f"The store {self.path} was replaced by another file while it was open. Restart what uses it."
                )
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # some errors have rolled back already
                    self._writer.execute("ROLLBACK")
                raise

    def _connect(self) -> sqlite3.Connection:
        # Our locks see to it that one thread at a time uses a connection; transactions are begun and ended by hand.
        db = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw", uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA fullfsync = ON")  # macOS: through the disk's own cache too
        db.execute("PRAGMA foreign_keys = ON")
        return db

    def _of_path(self) -> tuple[int, int]:
        """Which file has the name now."""
        found = self.path.stat()
        return found.st_dev, found.st_ino

    def _check(self) -> None:
        """That the file is a store of ours with the promises of ours."""
        found = self._writer.execute("SELECT 1 FROM sqlite_schema WHERE name IN ('version', 'centroids')").fetchall()
        if len(found) != 2:
            raise GuardError(f"{self.path} is an SQLite database, but no store of ModelKeep's. Name another file.")
        check_version(self._writer.execute("SELECT max(version) FROM version").fetchone()[0], str(self.path))
        if not write_ahead(self._writer, PATIENCE):
            raise GuardError(f"{self.path} cannot keep a write-ahead log. Use a disk of this machine, no network's.")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """SQLite's errors as sentences."""
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(f"The store {self.path} cannot be used: {error.strerror or error}.") from error
        except sqlite3.ProgrammingError as error:
            raise GuardError("The store was closed. Open it again with open_store(url).") from error
        except sqlite3.Error as error:
            reason = PASSING.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)  # the low byte is the kind
            if reason is not None:
                raise StoreUnavailable(f"The store {self.path} cannot be used now: {reason} ({error}).") from error
            raise GuardError(
                f"The store {self.path} is damaged or no store ({error}). Restore it from a backup; answers computed "
                "anew could differ from those given before."
            ) from error


def _create(path: Path) -> None:
    """Make an empty store beside `path` and then give it its name: a file of that name is always a whole one."""
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # private, as the state is
    os.close(descriptor)
    try:
        db = sqlite3.connect(unfinished, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(f"BEGIN; {SQLITE} COMMIT;")
        finally:
            db.close()
        with suppress(FileExistsError):  # another process was first
            os.link(unfinished, path)
    finally:
        os.unlink(unfinished)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
