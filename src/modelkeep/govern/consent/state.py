"""ConsentState: what a party has withdrawn and approved, in a file that its processes share."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from modelkeep.core.errors import bad_parameter
from modelkeep.govern.consent.board_approvals import SCHEMA as BOARD
from modelkeep.govern.consent.board_approvals import BoardApprovals
from modelkeep.govern.consent.file import ConsentFile
from modelkeep.govern.consent.policy import PURPOSES
from modelkeep.govern.consent.windows import at
from modelkeep.govern.passes import Pass, Purpose, read_pass

GRAIN = 1e-6  # so early does a rate let a pass in: seconds since 1970 are no finer in a float
KEPT = 1000  # passes of the ledger whose grants are kept, more than run between two of its syncs
SCHEMA = """
CREATE TABLE withdrawn (purpose TEXT PRIMARY KEY, reason TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE approvals (
    id INTEGER PRIMARY KEY, purpose TEXT NOT NULL, asker TEXT, passes INTEGER NOT NULL, spent INTEGER NOT NULL,
    until REAL NOT NULL, by TEXT NOT NULL
);
CREATE TABLE waiting (number INTEGER PRIMARY KEY, pass TEXT NOT NULL, asked REAL NOT NULL);
-- What a pass has been granted, and by whom, until it is in the ledger: it is not asked, spent or counted again.
CREATE TABLE granted (
    number INTEGER NOT NULL, digest TEXT NOT NULL, approver TEXT NOT NULL, PRIMARY KEY (number, digest, approver)
) WITHOUT ROWID;
CREATE TABLE rates (name TEXT PRIMARY KEY, due REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE changes (id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL)
"""


@dataclass(frozen=True)
class Waiting:
    """A pass that waits for a human, and when it was last asked for (seconds since 1970)."""

    of: Pass
    asked: float


@dataclass(frozen=True)
class Change:
    """What a person has changed, for the party's account of events."""

    id: int
    time: float
    kind: str
    text: str


class ConsentState:
    """The state in the SQLite file `path`, which is made where it does not exist.

    Any number of processes and threads may share it: what one changes, the others see with their next question.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     state = ConsentState(Path(folder) / "consent.sqlite3")
    ...     state.withdraw("the contract has ended", "train")
    ...     state.withdrawal("train"), state.withdrawal("infer")
    ...     state.close()
    ('the contract has ended', None)
    """

    def __init__(self, path: Path) -> None:
        self._file = ConsentFile(path, SCHEMA, BOARD)
        self.board = BoardApprovals(self._file, _note, _wait, _grant)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def withdraw(self, reason: str, purpose: Purpose | None = None) -> None:
        """Consent to no further pass for the purpose; for none at all without one. From now on, for every process."""
        with self._file.changing() as db:
            rows = [(one, reason) for one in _purposes(purpose)]
            db.executemany("INSERT OR REPLACE INTO withdrawn VALUES (?, ?)", rows)
            _note(db, "withdrawn", f"consent to {purpose or 'everything'} was withdrawn: {reason}")

    def restore(self, purpose: Purpose | None = None) -> None:
        """Take the withdrawal back, of all purposes without one. Approvals that were not spent count again."""
        with self._file.changing() as db:
            db.executemany("DELETE FROM withdrawn WHERE purpose = ?", [(one,) for one in _purposes(purpose)])
            _note(db, "restored", f"consent to {purpose or 'everything'} was restored")

    def withdrawal(self, purpose: Purpose) -> str | None:
        """The reason of the withdrawal; None where consent is not withdrawn."""
        with self._file.reading() as db:
            return _withdrawal(db, purpose)

    @contextmanager
    def holding(self, purpose: Purpose) -> Iterator[str | None]:
        """The reason of the withdrawal, if there is one; meanwhile nothing can be withdrawn, in any process."""
        with self._file.changing() as db:
            yield _withdrawal(db, purpose)

    def approve(self, passes: int, purpose: Purpose, until: float, asker: str | None = None, by: str = "") -> None:
        """A human's consent to a number of passes for the purpose, if they are asked for before `until`.

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
        with self._file.changing() as db:
            db.execute(
                "INSERT INTO approvals (purpose, asker, passes, spent, until, by) VALUES (?, ?, ?, 0, ?, ?)",
                (purpose, asker, passes, until, by),
            )
            text = f"{passes} passes to {purpose}, asked by {asker or 'anybody'} before {at(until)}, were approved"
            _note(db, "approved", f"{text} by {by}" if by else text)

    def count_approvals(self, purpose: Purpose, now: float) -> int:
        """How many passes for the purpose are approved and not spent yet, for any asker."""
        with self._file.reading() as db:
            (left,) = db.execute(
                "SELECT coalesce(sum(passes - spent), 0) FROM approvals WHERE purpose = ? AND until > ?",
                (purpose, now),
            ).fetchone()
        return int(left)

    def pending(self) -> list[Waiting]:
        """The passes that wait for a human."""
        with self._file.reading() as db:
            found = db.execute("SELECT pass, asked FROM waiting ORDER BY number").fetchall()
        return [Waiting(read_pass(json.loads(text)), asked) for text, asked in found]

    def changes(self) -> list[Change]:
        """What was changed and not forgotten yet, the oldest first."""
        with self._file.reading() as db:
            return [Change(*row) for row in db.execute("SELECT id, time, kind, text FROM changes ORDER BY id")]

    def forget_change(self, change: Change) -> None:
        """Forget a change, which is in the party's account of events by now."""
        with self._file.changing() as db:
            db.execute("DELETE FROM changes WHERE id = ?", (change.id,))

    def spend(self, of: Pass, now: float) -> bool:
        """Spend an approval on the pass, once; without one the pass waits, and that is told with False."""
        if self.is_granted(of, "human"):
            return True
        with self._file.changing() as db:
            found = db.execute(
                "SELECT id FROM approvals WHERE purpose = ? AND (asker IS NULL OR asker = ?) AND until > ? "
                "AND spent < passes ORDER BY until, id LIMIT 1",
                (of.purpose, of.asker, now),
            ).fetchone()
            if found is None:
                _wait(db, of, now)
                return False
            if _grant(db, of, "human"):
                db.execute("UPDATE approvals SET spent = spent + 1 WHERE id = ?", found)
            db.execute("DELETE FROM waiting WHERE number = ?", (of.number,))
        return True

    def take(self, of: Pass, rate: float, burst: int, now: float) -> float:
        """Let the pass in by the rate, once: 0, or how many seconds too early it is asked for."""
        name = f"rate {rate!r} burst {burst}"
        if self.is_granted(of, name):
            return 0.0
        with self._file.changing() as db:
            found = db.execute("SELECT due FROM rates WHERE name = ?", (name,)).fetchone()
            wait, due = bucket(None if found is None else found[0], rate, burst, now)
            if wait or _grant(db, of, name):
                db.execute("INSERT OR REPLACE INTO rates VALUES (?, ?)", (name, due))
        return wait

    def is_granted(self, of: Pass, approver: str) -> bool:
        """Whether the approver has granted this very pass before."""
        with self._file.reading() as db:
            found = db.execute(
                "SELECT 1 FROM granted WHERE number = ? AND digest = ? AND approver = ?",
                (of.number, of.digest, approver),
            ).fetchone()
        return found is not None

    def grant(self, of: Pass, approver: str) -> None:
        """Remember that the approver has granted the pass."""
        with self._file.changing() as db:
            _grant(db, of, approver)

    def forget(self, logged: int) -> None:
        """Forget what concerns the passes before `logged`, which are in the ledger, but for the last grants.

        Those are kept because a loss of power may take the ledger's end away; and by the hundreds they are cheaper to
        forget than one by one.
        """
        with self._file.reading() as db:
            (old,) = db.execute(
                "SELECT EXISTS (SELECT 1 FROM granted WHERE number < ?) "
                "OR EXISTS (SELECT 1 FROM waiting WHERE number < ?)",
                (logged - 2 * KEPT, logged),
            ).fetchone()
        if old:
            with self._file.changing() as db:
                db.execute("DELETE FROM granted WHERE number < ?", (logged - KEPT,))
                db.execute("DELETE FROM waiting WHERE number < ?", (logged,))


def bucket(due: float | None, rate: float, burst: int, now: float) -> tuple[float, float]:
    """Take a token from a bucket that holds `burst` of them and gets `rate` per second: how long to wait, if at all.

    A bucket is one number, when it will be full (None: it is). That is never further away than from an empty bucket,
    so that a clock which was ahead and is put right does not stop everything until then.

    >>> bucket(None, rate=0.5, burst=1, now=100.0)
    (0.0, 102.0)
    >>> bucket(102.0, rate=0.5, burst=1, now=101.5)
    (0.5, 102.0)
    """
    due = now if due is None else min(max(due, now), now + burst / rate)
    wait = due - (burst - 1) / rate - now
    return (wait, due) if wait > GRAIN else (0.0, due + 1 / rate)


def _withdrawal(db: sqlite3.Connection, purpose: Purpose) -> str | None:
    found = db.execute("SELECT reason FROM withdrawn WHERE purpose = ?", (purpose,)).fetchone()
    return None if found is None else str(found[0])


def _purposes(purpose: Purpose | None) -> tuple[Purpose, ...]:
    if purpose is None:
        return PURPOSES
    if purpose not in PURPOSES:
        raise bad_parameter("ConsentState", "purpose", f"one of {', '.join(PURPOSES)}", purpose)
    return (purpose,)


def _grant(db: sqlite3.Connection, of: Pass, approver: str) -> bool:
    """Whether it was not granted before."""
    row = (of.number, of.digest, approver)
    return db.execute("INSERT OR IGNORE INTO granted VALUES (?, ?, ?)", row).rowcount == 1


def _wait(db: sqlite3.Connection, of: Pass, now: float) -> None:
    """The pass waits for a person, who sees it with `modelkeep govern pending`."""
    db.execute("INSERT OR REPLACE INTO waiting VALUES (?, ?, ?)", (of.number, json.dumps(asdict(of)), now))


def _note(db: sqlite3.Connection, kind: str, text: str) -> None:
    db.execute("INSERT INTO changes (time, kind, text) VALUES (?, ?, ?)", (time.time(), kind, text))
