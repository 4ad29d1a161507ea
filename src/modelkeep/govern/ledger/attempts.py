"""Attempts: every pass that a party has begun, from its intent to its end. None is ever replaced or forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from modelkeep.core.errors import GovernError
from modelkeep.core.signing import canonical
from modelkeep.govern.ledger.entry import Crossing, Entry, Event
from modelkeep.govern.ledger.file import LedgerFile
from modelkeep.govern.ledger.reader import parse
from modelkeep.govern.passes import Pass, read, values_of

End = Literal["committed", "given up", "lost"]


class _Account(Protocol):
    """The ledger, as far as a statement is written into it."""

    def change(self) -> AbstractContextManager[None]: ...
    def event(self, kind: str, text: str, **values: Any) -> Event: ...


@dataclass(frozen=True)
class Attempt:
    """One attempt at a pass: `name` is made of all parties' consents to it, so no two have the same."""

    of: Pass
    name: str
    session: str

    @property
    def values(self) -> dict[str, Any]:
        """What every statement about it says."""
        return {"pass": self.of.digest, "number": self.of.number, "attempt": self.name, "session": self.session}


class Attempts:
    """The attempts of one party, in its ledger. What is stated about each stands in the account as well."""

    def __init__(self, file: LedgerFile, account: _Account) -> None:
        self._file, self._account = file, account
        self._counts: dict[str, tuple[int, int]] = {}
        self._times: dict[str, dict[str, float]] = {}  # by purpose and pass

    @property
    def next_number(self) -> int:
        """One more than the highest number of a pass that was begun."""
        return self._file.value("SELECT coalesce(max(number) + 1, 0) FROM attempts")

    def has_begun(self, of: Pass) -> bool:
        """Whether there was an attempt at this pass before."""
        return bool(self._file.rows("SELECT 1 FROM attempts WHERE pass = ? LIMIT 1", _key(of)))

    def adopt(self, entries: Iterable[Entry]) -> None:
        """Count the passes of a ledger of format 1, which has no attempts."""
        with self._account.change():
            for entry in entries:
                row = (f"entry {entry.number}", _key(entry.of), entry.number, entry.of.purpose)
                self._file.execute("INSERT INTO attempts VALUES (?, ?, ?, ?, 'committed', NULL)", *row)

    def forget_counts(self) -> None:
        """Count anew, after a change was taken back."""
        self._counts.clear()
        self._times.clear()

    def begin(self, attempt: Attempt, secret: str = "") -> Event:
        """State the intent, before anything crosses; in a check it shows the party's secret. An attempt begins once."""
        of = attempt.of
        with self._account.change():
            if self._file.rows("SELECT 1 FROM attempts WHERE name = ?", attempt.name):
                raise GovernError(f"This attempt at {of} was begun before. Each needs consents of its own.")
            row = (attempt.name, _key(of), of.number, of.purpose)
            self._file.execute("INSERT INTO attempts VALUES (?, ?, ?, ?, NULL, NULL)", *row)
            self._counts.pop(of.purpose, None)
            asked = {"purpose": of.purpose, "asker": of.asker, "rows": of.rows, "step": of.step}
            asked |= {"secret": secret} if secret else {}
            intent = self._account.event("intent", f"{of} begins.", **attempt.values, **asked)
            if of.purpose in self._times:
                self._times[of.purpose].setdefault(key_of_intent(intent.values), intent.time)
            return intent

    def prepare(self, attempt: Attempt, entry: Entry, told: Mapping[str, Any] | None = None) -> Event:
        """State what this party has logged of the pass, what it says that it measured, and what else is `told`.

        What came is kept with the attempt at once: another pass may take the entry's place before this one is settled.
        """
        logged = {"entry": entry.hash, "metrics": entry.metrics, **(told or {})}
        with self._account.change():
            came = _write_crossings(entry.received)
            self._file.execute("UPDATE attempts SET received = ? WHERE name = ?", came, attempt.name)
            return self._account.event("prepared", f"{attempt.of} is prepared.", **attempt.values, **logged)

    def end(self, attempt: Attempt, how: End, why: str, received: Sequence[Crossing] | None = ()) -> Event:
        """State how it ended. `received` is what had come in it; None: that is not known any more."""
        came = None if received is None else _write_crossings(received)
        with self._account.change():
            self._file.execute("UPDATE attempts SET ended = ?, received = ? WHERE name = ?", how, came, attempt.name)
            self._counts.pop(attempt.of.purpose, None)
            told = {} if how == "committed" else {"received": None if came is None else json.loads(came)}
            return self._account.event(how, why, **attempt.values, **told)

    def settle(self, name: str, prepared: Event, how: End, why: str) -> None:
        """State how an attempt ended that this party had prepared. What came in it was kept then."""
        told = {key: prepared.values.get(key) for key in ("pass", "number", "attempt", "session")}
        with self._account.change():
            self._file.execute("UPDATE attempts SET ended = ? WHERE name = ?", how, name)
            if how != "committed":
                ((came,),) = self._file.rows("SELECT received FROM attempts WHERE name = ?", name)
                told["received"] = None if came is None else json.loads(came)
            self._account.event(how, why, **told)

    def lose(self, name: str) -> None:
        """State that the process ended in an attempt: what had come by then is not known."""
        intent = self.find("intent", name)
        told = {} if intent is None else {key: intent.values.get(key) for key in ("pass", "number", "session")}
        with self._account.change():
            self._file.execute("UPDATE attempts SET ended = 'lost' WHERE name = ?", name)
            self._counts.clear()
            self._account.event("lost", "The process ended in this attempt.", **{**told, "attempt": name})

    def last_committed(self, number: int) -> str | None:
        """The name of the last attempt in which the pass of that number was committed."""
        found = self._file.rows(
            "SELECT name FROM attempts WHERE number = ? AND ended = 'committed' ORDER BY rowid DESC LIMIT 1", number
        )
        return str(found[0][0]) if found else None

    def unended(self) -> list[tuple[str, Event | None]]:
        """The names of the attempts that have not ended, and what was stated when each was prepared, if it was."""
        found = self._file.rows("SELECT name FROM attempts WHERE ended IS NULL ORDER BY rowid")
        return [(str(name), self.find("prepared", str(name))) for (name,) in found]

    def find(self, kind: str, name: str) -> Event | None:
        """What this party has stated of that kind about the attempt."""
        found = self._file.rows(
            "SELECT line FROM events WHERE json_extract(line, '$.values.attempt') = ? "
            "AND json_extract(line, '$.kind') = ? ORDER BY number DESC LIMIT 1",
            name,
            kind,
        )
        return parse(Event, found[0][0]) if found else None

    def all_prepared(self, number: int) -> list[Event]:
        """What this party has stated about passes of that number when it had prepared them."""
        found = self._file.rows(
            "SELECT line FROM events WHERE json_extract(line, '$.values.number') = ? "
            "AND json_extract(line, '$.kind') = 'prepared' ORDER BY number",
            number,
        )
        return [parse(Event, line) for (line,) in found]

    def count(self, of: Pass) -> int:
        """How many passes for the purpose of this one were begun, whether or not they came to an end, besides this one.

        Attempts at the same pass count once, because a later one may bring only what an earlier one brought. One of
        which that is not known, because the process ended in it, counts by itself; in training what crosses follows
        from the step, so there it does not.
        """
        if of.purpose not in self._counts:
            ((passes,),) = self._file.rows("SELECT count(DISTINCT pass) FROM attempts WHERE purpose = ?", of.purpose)
            ((lost,),) = self._file.rows(
                "SELECT count(*) FROM attempts WHERE purpose = ? AND purpose != 'train' AND ended = 'lost'", of.purpose
            )
            self._counts[of.purpose] = (int(passes), int(lost))
        passes, lost = self._counts[of.purpose]
        return passes + lost - self.has_begun(of)

    def begun_at(self, purpose: str) -> list[float]:
        """When each pass for the purpose was begun (seconds since 1970); attempts at the same pass count once."""
        if purpose not in self._times:
            found = self._file.rows(
                "SELECT line FROM events WHERE json_extract(line, '$.kind') = 'intent' "
                "AND json_extract(line, '$.values.purpose') = ? ORDER BY number",
                purpose,
            )
            times: dict[str, float] = {}
            for (line,) in found:
                intent = parse(Event, line)
                times.setdefault(key_of_intent(intent.values), intent.time)
            self._times[purpose] = times
        return list(self._times[purpose].values())

    def brought(self, of: Pass) -> list[Crossing]:
        """What has come in earlier attempts at this pass, as far as that is known."""
        found = self._file.rows("SELECT received FROM attempts WHERE pass = ? AND received IS NOT NULL", _key(of))
        return [read(Crossing, each) for (text,) in found for each in json.loads(text)]


def _write_crossings(crossings: Sequence[Crossing]) -> str:
    return canonical([values_of(crossing) for crossing in crossings]).decode()


def key_of_intent(values: Mapping[str, Any]) -> str:
    """What two attempts at the same pass have in common, from what is stated about them (see `_key`)."""
    return f"train {values['step']}" if values.get("purpose") == "train" and "step" in values else str(values["pass"])


def _key(of: Pass) -> str:
    """What two attempts at the same pass have in common: the same step of a training may come under another number."""
    return f"train {of.step}" if of.purpose == "train" else of.digest
