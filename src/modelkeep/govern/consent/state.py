"""ConsentState: what a party has withdrawn and approved, in a file that its processes share."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from modelkeep.errors import ConsentPending, GovernError, bad_parameter
from modelkeep.govern.consent.policy import PURPOSES
from modelkeep.govern.passes import Pass, Purpose, read_pass

PATIENCE = 5.0  # seconds to wait for another process that writes
GRAIN = 1e-6  # so early does a rate let a pass in: seconds since 1970 are no finer in a float
VERSION = 1
SCHEMA = """
CREATE TABLE withdrawn (purpose TEXT PRIMARY KEY, reason TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE approvals (
    id INTEGER PRIMARY KEY, purpose TEXT NOT NULL, asker TEXT, passes INTEGER NOT NULL, spent INTEGER NOT NULL,
    until REAL NOT NULL, by TEXT NOT NULL
);
CREATE TABLE waiting (number INTEGER PRIMARY KEY, pass TEXT NOT NULL, asked REAL NOT NULL);
-- What a pass that is not in the ledger yet has been granted, and by whom: it is not asked, spent or counted again.
CREATE TABLE granted (
    digest TEXT NOT NULL, approver TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (digest, approver)
) WITHOUT ROWID;
CREATE TABLE rates (name TEXT PRIMARY KEY, due REAL NOT NULL) WITHOUT ROWID;
"""
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


@dataclass(frozen=True)
class Waiting:
    """A pass that waits for a human, and when it was last asked for (seconds since 1970)."""

    of: Pass
    asked: float


class ConsentState:
    """The state in the SQLite file `path`, which is made where it does not exist.

    Every change is one transaction, on disk when the call returns: a process killed in the middle of it leaves the
    state before it. A rollback journal, no write-ahead log: two processes write here, and before SQLite 3.51.3 a
    write-ahead log could, rarely, be damaged by that. A read takes about 10 µs, a change about 2 ms.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     state = ConsentState(Path(folder) / "consent.sqlite3")
    ...     state.withdraw("the contract has ended", "train")
    ...     state.withdrawn("train"), state.withdrawn("infer")
    ...     state.close()
    ('the contract has ended', None)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        with self._told():
            # One thread at a time uses the connection (our lock); transactions are begun and ended by hand.
            self._db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def withdraw(self, reason: str, purpose: Purpose | None = None) -> None:
        """Consent to no further pass for the purpose; for none at all without one. From now on, for every process."""
        with self._change() as db:
            rows = [(one, reason) for one in _purposes(purpose)]
            db.executemany("INSERT OR REPLACE INTO withdrawn VALUES (?, ?)", rows)

    def restore(self, purpose: Purpose | None = None) -> None:
        """Take the withdrawal back, of all purposes without one. Approvals that were not spent count again."""
        with self._change() as db:
            db.executemany("DELETE FROM withdrawn WHERE purpose = ?", [(one,) for one in _purposes(purpose)])

    def withdrawn(self, purpose: Purpose) -> str | None:
        """The reason of the withdrawal; None where consent is not withdrawn."""
        with self._told(), self._lock:
            found = self._db.execute("SELECT reason FROM withdrawn WHERE purpose = ?", (purpose,)).fetchone()
        return None if found is None else str(found[0])

    def approve(self, passes: int, purpose: Purpose, until: float, asker: str | None = None, by: str = "") -> None:
        """A human's consent to so many passes for the purpose, if they are asked for before `until`.

        Args:
            passes: How many.
            purpose: For what.
            until: Seconds since 1970.
            asker: Who must ask; None: anybody.
            by: Whose approval it is.
        """
        if passes < 1:
            raise bad_parameter("approve", "passes", "1 or more", passes)
        _purposes(purpose)
        with self._change() as db:
            db.execute(
                "INSERT INTO approvals (purpose, asker, passes, spent, until, by) VALUES (?, ?, ?, 0, ?, ?)",
                (purpose, asker, passes, until, by),
            )

    def approved(self, purpose: Purpose, now: float) -> int:
        """How many passes for the purpose are approved and not spent yet, whoever asks."""
        with self._told(), self._lock:
            (left,) = self._db.execute(
                "SELECT coalesce(sum(passes - spent), 0) FROM approvals WHERE purpose = ? AND until > ?",
                (purpose, now),
            ).fetchone()
        return int(left)

    def pending(self) -> list[Waiting]:
        """The passes that wait for a human."""
        with self._told(), self._lock:
            found = self._db.execute("SELECT pass, asked FROM waiting ORDER BY number").fetchall()
        return [Waiting(read_pass(json.loads(text)), asked) for text, asked in found]

    def spend(self, of: Pass, now: float) -> bool:
        """Spend an approval on the pass, once; without one the pass waits, and that is told with False."""
        if self.granted(of, "human"):
            return True
        with self._change() as db:
            found = db.execute(
                "SELECT id FROM approvals WHERE purpose = ? AND (asker IS NULL OR asker = ?) AND until > ? "
                "AND spent < passes ORDER BY until, id LIMIT 1",
                (of.purpose, of.asker, now),
            ).fetchone()
            if found is None:
                row = (of.number, json.dumps(asdict(of)), now)
                db.execute("INSERT OR REPLACE INTO waiting VALUES (?, ?, ?)", row)
                return False
            if _grant(db, of, "human"):
                db.execute("UPDATE approvals SET spent = spent + 1 WHERE id = ?", found)
            db.execute("DELETE FROM waiting WHERE number = ?", (of.number,))
        return True

    def take(self, of: Pass, rate: float, burst: int, now: float) -> float:
        """Let the pass in by the rate, once: 0, or how many seconds too early it is asked for.

        A token bucket in one number: when it would be full again but for `burst` - 1 tokens. It is never further away
        than from an empty bucket, also after a clock that was ahead has been put right.
        """
        name = f"rate {rate!r} burst {burst}"
        if self.granted(of, name):
            return 0.0
        with self._change() as db:
            found = db.execute("SELECT due FROM rates WHERE name = ?", (name,)).fetchone()
            due = now if found is None else min(max(found[0], now), now + burst / rate)
            wait = float(due - (burst - 1) / rate - now)
            if wait > GRAIN:
                return wait
            if _grant(db, of, name):
                db.execute("INSERT OR REPLACE INTO rates VALUES (?, ?)", (name, due + 1 / rate))
        return 0.0

    def granted(self, of: Pass, approver: str) -> bool:
        """Whether the approver has granted this very pass before."""
        with self._told(), self._lock:
            row = (of.digest, approver)
            return bool(self._db.execute("SELECT 1 FROM granted WHERE digest = ? AND approver = ?", row).fetchone())

    def grant(self, of: Pass, approver: str) -> None:
        """Remember that the approver has granted the pass."""
        with self._change() as db:
            _grant(db, of, approver)

    def forget(self, before: int) -> None:
        """Forget what concerns passes with smaller numbers, which are in the ledger by now."""
        with self._told(), self._lock:
            rows = "SELECT 1 FROM granted WHERE number < ? UNION ALL SELECT 1 FROM waiting WHERE number < ? LIMIT 1"
            if not self._db.execute(rows, (before, before)).fetchone():
                return
        with self._change() as db:
            db.execute("DELETE FROM granted WHERE number < ?", (before,))
            db.execute("DELETE FROM waiting WHERE number < ?", (before,))

    def _prepare(self) -> None:
        self._db.execute("PRAGMA synchronous = EXTRA")  # also the journal's end, so that a commit is one for ever
        with self._change() as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version == 0 and not db.execute("SELECT 1 FROM sqlite_schema").fetchone():
                for statement in SCHEMA.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {VERSION}")
            elif version != VERSION:
                raise GovernError(f"'{self.path}' is an SQLite file, but no consents of this version of ModelKeep's.")

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """One transaction, alone among all threads and processes."""
        with self._told(), self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # some errors have rolled back already
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        """SQLite's errors as sentences. Nobody consents who cannot know whether consent was withdrawn."""
        try:
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in PASSING:  # the low byte is the kind
                raise ConsentPending(f"The consents in '{self.path}' cannot be used now: {error}.") from error
            raise GovernError(
                f"The consents in '{self.path}' cannot be read: {error}. Restore the file from a backup, or remove it: "
                "then nothing is withdrawn and nothing approved."
            ) from error


def _purposes(purpose: Purpose | None) -> tuple[Purpose, ...]:
    if purpose is None:
        return PURPOSES
    if purpose not in PURPOSES:
        raise bad_parameter("ConsentState", "purpose", f"one of {', '.join(PURPOSES)}", purpose)
    return (purpose,)


def _grant(db: sqlite3.Connection, of: Pass, approver: str) -> bool:
    """Whether it was not granted before."""
    row = (of.digest, approver, of.number)
    return db.execute("INSERT OR IGNORE INTO granted VALUES (?, ?, ?)", row).rowcount == 1
