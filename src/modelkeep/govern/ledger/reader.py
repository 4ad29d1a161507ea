"""LedgerReader: a ledger's file, read without the party's key: the live file or an exported copy."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from modelkeep.core.errors import GovernError
from modelkeep.core.files import replace_file
from modelkeep.core.signing import canonical
from modelkeep.govern.agreement.key_change import EVENT
from modelkeep.govern.ledger.entry import Entry, Event
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.passes import read

FORMAT = 2
"""The format of ledgers and of their copies. Format 1 has no attempts and no receipts, and is read too."""

APPLICATION = 0x6D6B676C
"""What marks a SQLite file as a ledger: "mkgl"."""

_KEY_CHANGE = f'"kind":"{EVENT}"'
Part = Literal["entries", "events", "receipts"]
T = TypeVar("T", Entry, Event, Receipt)
_WORDS: dict[Part, str] = {"entries": "entry", "events": "event", "receipts": "receipt"}


@dataclass(frozen=True)
class LedgerReader:
    """What a ledger says of itself (none of it is checked, see `audit`), and its lines."""

    path: Path
    party: str
    public_key: str
    committed: int
    format: int = FORMAT

    def lines(self, part: Part, start: int = 0) -> Iterator[str]:
        """The entries or events from number `start` on, a line of JSON each, as they stand at this moment."""
        try:
            if _is_copy(self.path):
                yield from _copied_lines(self.path, part, start)
            else:
                with _open_to_read(self.path) as database:
                    if part == "receipts" and self.format < 2:
                        return
                    query = f"SELECT line FROM {part} WHERE number >= ? ORDER BY number"
                    yield from (str(line) for (line,) in database.execute(query, (start,)))
        except (sqlite3.Error, OSError, ValueError) as error:
            raise GovernError(f"The ledger '{self.path}' cannot be read: {error}.") from error

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """The entries from number `start` on."""
        return (parse(Entry, line) for line in self.lines("entries", start))

    def events(self, start: int = 0) -> Iterator[Event]:
        """The events from number `start` on."""
        return (parse(Event, line) for line in self.lines("events", start))

    def key_changes(self) -> Iterator[Event]:
        """The events that log a key change; the others are not even parsed."""
        found = (parse(Event, line) for line in self.lines("events") if _KEY_CHANGE in line)
        return (event for event in found if event.kind == EVENT)

    def receipts(self) -> Iterator[Receipt]:
        """What the other parties have stated to this one."""
        return (parse(Receipt, line) for line in self.lines("receipts"))

    def export(self, path: Path) -> None:
        """Write a copy for an auditor: a line that says whose ledger it is, then each line of it as JSON."""
        about = {"ledger": FORMAT, "party": self.party, "public_key": self.public_key, "committed": self.committed}
        with replace_file(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
            file.write(canonical(about).decode() + "\n")
            for part, word in _WORDS.items():
                file.writelines(f'{{"{word}":{line}}}\n' for line in self.lines(part))


def read_ledger(path: Path) -> LedgerReader:
    """Read whose ledger lies at `path`: the SQLite file, also while its party writes to it, or a copy in JSON lines."""
    try:
        about = _about_copy(path) if _is_copy(path) else _about_database(path)
        return LedgerReader(
            path, str(about["party"]), str(about["public_key"]), int(about["committed"]), int(about["ledger"])
        )
    except (sqlite3.Error, OSError, ValueError, TypeError, LookupError) as error:
        raise GovernError(f"'{path}' cannot be read as a ledger: {error}.") from error


def parse(kind: type[T], line: str) -> T:
    """An entry or event from its line; anything else is refused."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise GovernError(f"This is not an {kind.__name__.lower()}: {error}.") from error
    return read(kind, values)


def _is_copy(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1) == b"{"


def _about_copy(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8") as file:
        about: dict[str, Any] = json.loads(file.readline())
    if about["ledger"] not in range(1, FORMAT + 1):
        raise ValueError(f"it has format {about['ledger']}, and this version reads format {FORMAT}")
    return about


def _copied_lines(path: Path, part: Part, start: int) -> Iterator[str]:
    """The lines of one part; one that is of no part is given as an entry, to be found damaged."""
    opening = f'{{"{_WORDS[part]}":'
    others = tuple(f'{{"{word}":' for word in _WORDS.values() if word != _WORDS[part])
    skipped = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        next(file)
        for line in file:
            if line.startswith(others) or (part != "entries" and not line.startswith(opening)):
                continue
            if skipped < start:
                skipped += 1
            else:
                yield line.rstrip("\n").removeprefix(opening).removesuffix("}") if line.startswith(opening) else line


def _about_database(path: Path) -> dict[str, Any]:
    with _open_to_read(path) as database:
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION:
            raise ValueError("it is a SQLite database, but no ledger of passes")
        if version not in range(1, FORMAT + 1):
            raise ValueError(f"it has format {version}, and this version reads format {FORMAT}")
        party, public_key, committed = database.execute("SELECT party, public_key, committed FROM about").fetchone()
    return {"party": party, "public_key": public_key, "committed": committed, "ledger": version}


@contextmanager
def _open_to_read(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write."""
    address = path.absolute().as_uri() + "?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=30.0, isolation_level=None)) as database:
        try:
            database.execute("PRAGMA trusted_schema = OFF")  # another party made the file
            database.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN or path.with_name(f"{path.name}-wal").exists():
                raise
        else:
            yield database
            return
    # SQLite cannot make its files beside one in a folder that cannot be written; and no process writes to that one.
    with closing(sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)) as database:
        database.execute("PRAGMA trusted_schema = OFF")
        yield database
