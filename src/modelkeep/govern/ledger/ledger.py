"""Ledger: a party's own log of all passes and of all attempts at them, to which only that party appends."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from modelkeep.core.errors import GovernError
from modelkeep.core.signing import Signer
from modelkeep.govern.agreement.key_change import EVENT, KeyChange
from modelkeep.govern.ledger.attempts import Attempts
from modelkeep.govern.ledger.entry import Crossing, Entry, Event
from modelkeep.govern.ledger.file import LedgerFile
from modelkeep.govern.ledger.reader import parse, read_ledger
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.ledger.receipts import Receipts
from modelkeep.govern.passes import Consent, Pass

_CHUNK = 256  # entries that are read at once, so that reading does not keep a pass waiting


class Ledger:
    """The ledger of `party` in the file at `path`; it is made if there is none.

    Entries are the passes by their numbers. Events are the party's account of all that happened, in which every attempt
    at a pass stands from its intent to its end. Every change is one transaction, so a process that is killed leaves a
    whole chain; `sync` makes what was logged survive a loss of power too. Others read the file while it is written
    (`LedgerReader`). `former_key` is the public key that wrote it until now, for who takes in a key change.
    """

    def __init__(self, path: Path, party: str, signer: Signer, *, former_key: str = "") -> None:
        self.path, self.party = path, party
        self._signer = signer
        self._file = LedgerFile(path, party, former_key or signer.public_key)
        self.attempts = Attempts(self._file, self)
        self.receipts = Receipts(self._file, self)
        try:
            self._load()
            if self._file.format == 1:
                with self.change():
                    self._file.upgrade()
                    self.attempts.adopt(self.entries())
        except BaseException:
            self._file.close()
            raise

    def _load(self) -> None:
        """Read once what every pass asks for: the end of both chains and how many passes of each kind there were."""
        self._committed: int = self._file.value("SELECT committed FROM about")
        self._length: int = self._file.value("SELECT coalesce(max(number) + 1, 0) FROM entries")
        self._heard: int = self._file.value("SELECT coalesce(max(number) + 1, 0) FROM events")
        self._last = self.entry(self._length - 1) if self._length else None
        events = self._file.rows("SELECT line FROM events WHERE number = ?", self._heard - 1)
        self._last_event = parse(Event, events[0][0]).hash if events else ""
        last = self._last
        if last is not None and (last.number != self._length - 1 or not self._is_own(last)):
            raise GovernError(
                f"The last entry of the ledger '{self.path}' is not as '{self.party}' signed it: the file was changed "
                "or is damaged. Audit it, and go on with a copy that is sound."
            )
        self._counts: Counter[tuple[str, str]] = Counter(
            {
                (purpose, asker): passes
                for purpose, asker, passes in self._file.rows(
                    "SELECT json_extract(line, '$.of.purpose') AS purpose, json_extract(line, '$.of.asker') AS asker,"
                    " count(*) FROM entries GROUP BY purpose, asker"
                )
            }
        )

    def _is_own(self, entry: Entry) -> bool:
        """Whether this party signed the entry, with the key that it has or with one that it had."""
        if entry.is_of(self.party, self._signer.public_key):
            return True
        former = [event.values.get("change", {}).get("old_key") for event in read_ledger(self.path).key_changes()]
        about = self._file.rows("SELECT public_key FROM about")[0][0]
        return any(entry.is_of(self.party, str(key)) for key in {about, *former} if key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

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
        with self._file.lock:
            return sum(
                count
                for (its_purpose, its_asker), count in self._counts.items()
                if purpose in (None, its_purpose) and asker in (None, its_asker)
            )

    def head(self, number: int) -> str:
        """The hash of the entry `number`; empty where that is before the first one."""
        if number < 0:
            return ""
        with self._file.lock:
            if self._last is not None and number == self._last.number:
                return self._last.hash
            if self._last is not None and number == self._last.number - 1:  # what a consent names at every pass
                return self._last.previous
            return self.entry(number).hash

    def entry(self, number: int) -> Entry:
        """The entry `number`."""
        found = self._file.rows("SELECT line FROM entries WHERE number = ?", number)
        if not found:
            raise GovernError(f"The ledger of '{self.party}' has no entry {number}; it has {self._length}.")
        return parse(Entry, found[0][0])

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """The entries from `start` on."""
        query = "SELECT line FROM entries WHERE number >= ? ORDER BY number LIMIT ?"
        while start < self._length and (lines := self._file.rows(query, start, _CHUNK)):
            yield from (parse(Entry, line) for (line,) in lines)
            start += len(lines)

    def events(self) -> list[Event]:
        """All events."""
        return [parse(Event, line) for (line,) in self._file.rows("SELECT line FROM events ORDER BY number")]

    @contextmanager
    def change(self) -> Iterator[None]:
        """One transaction of all that is written within it; what fails leaves the ledger as it was."""
        with self._file.lock:
            if self._file.changing:  # within another change, which takes all back
                yield
                return
            before = (self._length, self._last, self._heard, self._last_event, self._committed, self._counts.copy())
            try:
                with self._file.change():
                    yield
            except BaseException:
                self._length, self._last, self._heard, self._last_event, self._committed, self._counts = before
                self.attempts.forget_counts()
                raise

    def prepare(
        self,
        of: Pass,
        consents: Sequence[Consent],
        sent: Sequence[Crossing],
        received: Sequence[Crossing],
        metrics: Mapping[str, float] | None = None,
    ) -> Entry:
        """Append the pass, not yet committed.

        A replayed pass must tell what the one that is there already tells, and nothing is appended. One that was not
        committed may also turn out differently: then it takes the place of the old one, and what came after that is
        gone. The attempt at it stays in the account for ever.
        """
        with self._file.lock:
            if not 0 <= of.number <= self._length:
                raise GovernError(
                    f"The ledger of '{self.party}' has {self._length} entries, so {of} cannot be its next one."
                )
            old = self.entry(of.number) if of.number < self._length else None
            previous = self.head(of.number - 1)
            entry = Entry.sign(
                of, consents, sent, received, metrics or {}, previous=previous, party=self.party, signer=self._signer
            )
            if old is not None and (entry == old or (of.number < self._committed and entry.tells_the_same(old))):
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
        with self.change():
            if dropped:
                self._file.execute("DELETE FROM entries WHERE number >= ?", entry.number)
            self._file.execute("INSERT INTO entries VALUES (?, ?)", entry.number, entry.line())
        self._counts.subtract((gone.of.purpose, gone.of.asker) for gone in dropped)
        self._counts[entry.of.purpose, entry.of.asker] += 1
        self._length, self._last = entry.number + 1, entry

    def commit(self, number: int) -> None:
        """Mark all entries up to `number` as committed: every party has logged them."""
        with self._file.lock:
            if number >= self._length:
                raise GovernError(
                    f"The ledger of '{self.party}' has {self._length} entries, so pass {number} cannot be committed."
                )
            if number >= self._committed:
                with self.change():
                    self._file.execute("UPDATE about SET committed = ?", number + 1)
                self._committed = number + 1

    def has_met_in(self, session: str) -> bool:
        """Whether this party has stated before where it stands in a session of that name."""
        query = (
            "SELECT 1 FROM events WHERE json_extract(line, '$.kind') = 'standing' "
            "AND json_extract(line, '$.values.session') = ? LIMIT 1"
        )
        return bool(self._file.rows(query, session))

    def prove(self, number: int) -> list[Receipt]:
        """What all parties stated when they had prepared the pass of that number, which is committed."""
        name = self.attempts.last_committed(number)
        own = None if name is None else self.attempts.find("prepared", name)
        if name is None or own is None:
            return []
        return [*self.receipts.about("prepared", name), Receipt(self.party, own)]

    def event(self, kind: str, text: str, **values: Any) -> Event:
        """Append to the party's own account of what happened."""
        with self._file.lock:
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
            with self.change():
                self._file.execute("INSERT INTO events VALUES (?, ?)", event.number, event.line())
            self._heard, self._last_event = event.number + 1, event.hash
            return event

    def take_key_change(self, change: KeyChange) -> None:
        """Log a key change to which all have consented, who must. If it is about this party, it signs anew from here.

        Who consented has committed `change.passes` passes and no other, unless a party leaves, after which nothing is
        settled any more.
        """
        with self.change():
            if change.kind != "leave":
                self._settle_before(change)
            self.event(EVENT, f"{change}.", change=asdict(change))
            if change.party == self.party and change.new_key:
                self._file.execute("UPDATE about SET public_key = ?", change.new_key)
        self._load()

    def _settle_before(self, change: KeyChange) -> None:
        """End what this party had prepared when its process ended: it is committed, or no party has committed it."""
        for name, prepared in self.attempts.unended():
            if prepared is None:
                self.attempts.lose(name)
            elif (number := int(prepared.values["number"])) < change.passes:
                self.commit(number)
                self.attempts.settle(name, prepared, "committed", f"Before {change}.")
            else:
                self.attempts.settle(name, prepared, "given up", f"Before {change}.")
        if self._committed != change.passes:
            raise GovernError(
                f"The ledger of '{self.party}' has {self._committed} committed passes, and not those before the "
                f"{change}. Was it restored from a backup? `modelkeep govern audit` says what is missing."
            )
        self._file.execute("DELETE FROM entries WHERE number >= ?", self._committed)

    def sync(self) -> None:
        """Make all that was logged survive a loss of power."""
        self._file.sync()

    def export(self, path: Path) -> None:
        """Write a copy for an auditor, while passes go on (see `LedgerReader.export`)."""
        read_ledger(self.path).export(path)


def _difference(old: Entry, new: Entry) -> str:
    """Which parts of two entries differ."""
    parts = {
        "the pass": "of",
        "the consents": "consents",
        "what was sent": "sent",
        "what was received": "received",
        "what was measured": "metrics",
    }
    differing = [words for words, name in parts.items() if getattr(old, name) != getattr(new, name)]
    return " and ".join([*differing[:-2], ", ".join(differing[-2:])] if differing else ["the entry before it"])
