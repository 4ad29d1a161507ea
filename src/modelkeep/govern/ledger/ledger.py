"""Ledger: a party's own log of all passes, a SQLite file to which only that party appends."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, Self

from modelkeep.core.databases import write_ahead
from modelkeep.core.errors import GovernError, PartyUnavailable
from modelkeep.core.signing import Signer
from modelkeep.govern.ledger.entry import Crossing, Entry, Event
from modelkeep.govern.ledger.reader import APPLICATION, FORMAT, parse, read_ledger
from modelkeep.govern.passes import Consent, Pass

_PATIENCE = 30.0  # seconds that a change waits for a lock; readers hold one only for moments
_CHUNK = 256  # entries that are read at once, so that reading does not keep a pass waiting
_SCHEMA = """
CREATE TABLE about (party TEXT NOT NULL, public_key TEXT NOT NULL, committed INTEGER NOT NULL, syncs INTEGER NOT NULL);
CREATE TABLE entries (number INTEGER PRIMARY KEY, line TEXT NOT NULL);
CREATE TABLE events (number INTEGER PRIMARY KEY, line TEXT NOT NULL)
"""


class Ledger:
    """The ledger of `party` in the file at `path`; it is made if there is none.

    One process writes to it; its threads may share it. Every change is one transaction, so a process that is killed
    leaves a whole chain; `sync` makes what was logged survive a loss of power too. Others read the file while it is
    written (`LedgerReader`).
    """

    def __init__(self, path: Path, party: str, signer: Signer) -> None:
        self.path, self.party = path, party
        self._signer = signer
        self._lock = RLock()
        with ExitStack() as refused:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                # Autocommit, because _change() opens each transaction itself.
                self._database = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
                refused.callback(self._database.close)
                self._open()
            except (sqlite3.Error, OSError) as error:
                raise GovernError(f"The file '{path}' cannot be used as a ledger: {error}.") from error
            refused.pop_all()

    def _open(self) -> None:
        # Before anything is written: a file that is something else must stay as it is.
        application, version = self._value("PRAGMA application_id"), self._value("PRAGMA user_version")
        fresh = self._value("SELECT count(*) FROM sqlite_master") == 0
        if not fresh and application != APPLICATION:
            raise GovernError(f"'{self.path}' is a SQLite database, but no ledger of passes. Choose another file.")
        if not fresh and version != FORMAT:
            raise GovernError(f"The ledger '{self.path}' has format {version}; this version reads format {FORMAT}.")
        write_ahead(self._database, _PATIENCE)
        self._database.execute("PRAGMA synchronous = NORMAL")
        key = self._signer.public_key
        if fresh:
            with self._change():
                for statement in _SCHEMA.split(";"):
                    self._database.execute(statement)
                self._database.execute("INSERT INTO about VALUES (?, ?, 0, 0)", (self.party, key))
                self._database.execute(f"PRAGMA application_id = {APPLICATION}")
                self._database.execute(f"PRAGMA user_version = {FORMAT}")
        owner, owner_key, committed = self._database.execute(
            "SELECT party, public_key, committed FROM about"
        ).fetchone()
        self._committed: int = committed
        if owner != self.party:
            raise GovernError(f"'{self.path}' is the ledger of '{owner}', not of '{self.party}'.")
        if owner_key != key:
            raise GovernError(
                f"The ledger '{self.path}' is signed with another key: {owner_key[:16]}…, not {key[:16]}…. "
                "Go on with that key, or begin a new agreement with a new ledger."
            )
        self._load()

    def _load(self) -> None:
        """Read once what every pass asks for: the end of both chains and how many passes of each kind there were."""
        self._length: int = self._value("SELECT coalesce(max(number) + 1, 0) FROM entries")
        self._heard: int = self._value("SELECT coalesce(max(number) + 1, 0) FROM events")
        self._last = self.entry(self._length - 1) if self._length else None
        events = self._rows("SELECT line FROM events WHERE number = ?", self._heard - 1)
        self._last_event = parse(Event, events[0][0]).hash if events else ""
        last, key = self._last, self._signer.public_key
        if last is not None and (last.number != self._length - 1 or not last.is_of(self.party, key)):
            raise GovernError(
                f"The last entry of the ledger '{self.path}' is not as '{self.party}' signed it: the file was changed "
                "or is damaged. Audit it, and go on with a copy that is sound."
            )
        self._counts: Counter[tuple[str, str]] = Counter(
            {
                (purpose, asker): passes
                for purpose, asker, passes in self._database.execute(
                    "SELECT json_extract(line, '$.of.purpose') AS purpose, json_extract(line, '$.of.asker') AS asker,"
                    " count(*) FROM entries GROUP BY purpose, asker"
                )
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    @property
    def length(self) -> int:
        """How many entries there are."""
        return self._length

    @property
    def committed(self) -> int:
        """How many of them are committed: all parties have logged these passes."""
        return self._committed

    def passes(self, purpose: str | None = None, asker: str | None = None) -> int:
        """How many passes were logged, of this purpose or asked by this party."""
        with self._lock:
            return sum(
                count
                for (its_purpose, its_asker), count in self._counts.items()
                if purpose in (None, its_purpose) and asker in (None, its_asker)
            )

    def head(self, number: int) -> str:
        """The hash of the entry `number`; empty where that is before the first one."""
        if number < 0:
            return ""
        with self._lock:
            if self._last is not None and number == self._last.number:
                return self._last.hash
            if self._last is not None and number == self._last.number - 1:  # what a consent names at every pass
                return self._last.previous
            return self.entry(number).hash

    def entry(self, number: int) -> Entry:
        """The entry `number`."""
        found = self._rows("SELECT line FROM entries WHERE number = ?", number)
        if not found:
            raise GovernError(f"The ledger of '{self.party}' has no entry {number}; it has {self._length}.")
        return parse(Entry, found[0][0])

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """The entries from `start` on."""
        query = "SELECT line FROM entries WHERE number >= ? ORDER BY number LIMIT ?"
        while lines := self._rows(query, start, _CHUNK):
            yield from (parse(Entry, line) for (line,) in lines)
            start += len(lines)

    def events(self) -> list[Event]:
        """All events."""
        return [parse(Event, line) for (line,) in self._rows("SELECT line FROM events ORDER BY number")]

    def prepare(
        self, of: Pass, consents: Sequence[Consent], sent: Sequence[Crossing], received: Sequence[Crossing]
    ) -> Entry:
        """Append the pass, not yet committed.

        A replayed pass must be the one that is there already, and nothing is appended. One that was not committed
        may also turn out differently: then it takes the place of the old one, and what came after that is gone.
        """
        with self._lock:
            if not 0 <= of.number <= self._length:
                raise GovernError(
                    f"The ledger of '{self.party}' has {self._length} entries, so {of} cannot be its next one."
                )
            old = self.entry(of.number) if of.number < self._length else None
            previous = self.head(of.number - 1)
            entry = Entry.sign(of, consents, sent, received, previous=previous, party=self.party, signer=self._signer)
            if entry == old:
                return old
            if of.number < self._committed and old is not None:
                raise GovernError(
                    f"{of} is committed in the ledger of '{self.party}', and came out differently when it ran again: "
                    f"{_difference(old, entry)}. A replayed pass must be the very same; nothing was changed."
                )
            self._append(entry)
            return entry

    def _append(self, entry: Entry) -> None:
        dropped = list(self.entries(entry.number)) if entry.number < self._length else []
        with self._change():
            if dropped:
                self._database.execute("DELETE FROM entries WHERE number >= ?", (entry.number,))
            self._database.execute("INSERT INTO entries VALUES (?, ?)", (entry.number, entry.line()))
        self._counts.subtract((gone.of.purpose, gone.of.asker) for gone in dropped)
        self._counts[entry.of.purpose, entry.of.asker] += 1
        self._length, self._last = entry.number + 1, entry

    def commit(self, number: int) -> None:
        """Mark all entries up to `number` as committed: every party has logged them."""
        with self._lock:
            if number >= self._length:
                raise GovernError(
                    f"The ledger of '{self.party}' has {self._length} entries, so pass {number} cannot be committed."
                )
            if number >= self._committed:
                with self._change():
                    self._database.execute("UPDATE about SET committed = ?", (number + 1,))
                self._committed = number + 1

    def event(self, kind: str, text: str, **values: Any) -> Event:
        """Append to the party's own account of what happened."""
        with self._lock:
            event = Event.sign(
                self._heard,
                time.time(),
                kind,
                text,
                values,
                previous=self._last_event,
                party=self.party,
                signer=self._signer,
            )
            with self._change():
                self._database.execute("INSERT INTO events VALUES (?, ?)", (event.number, event.line()))
            self._heard, self._last_event = event.number + 1, event.hash
            return event

    def sync(self) -> None:
        """Make all that was logged survive a loss of power: one change that is written through, and with it all."""
        with self._lock:
            try:
                self._database.execute("PRAGMA synchronous = FULL")
                with self._change():
                    self._database.execute("UPDATE about SET syncs = syncs + 1")
            finally:
                self._database.execute("PRAGMA synchronous = NORMAL")

    def export(self, path: Path) -> None:
        """Write a copy for an auditor, while passes go on (see `LedgerReader.export`)."""
        read_ledger(self.path).export(path)

    def _rows(self, query: str, *values: int) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._database.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise GovernError(f"The ledger '{self.path}' cannot be read: {error}.") from error

    def _value(self, statement: str) -> int:
        value: int = self._database.execute(statement).fetchone()[0]
        return value

    @contextmanager
    def _change(self) -> Iterator[None]:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            yield
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):  # SQLite may have rolled back already
                self._database.execute("ROLLBACK")
            raise PartyUnavailable(
                f"The ledger '{self.path}' cannot be written: {error}. What it held is all there and nothing was "
                "added; see to the disk, then the same pass may run again."
            ) from error


def _difference(old: Entry, new: Entry) -> str:
    """Which parts of two entries differ."""
    parts = {"the pass": "of", "the consents": "consents", "what was sent": "sent", "what was received": "received"}
    differing = [words for words, name in parts.items() if getattr(old, name) != getattr(new, name)]
    return " and ".join([*differing[:-2], ", ".join(differing[-2:])] if differing else ["the entry before it"])
