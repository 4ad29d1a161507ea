"""Receipts: the statements of the other parties that a party keeps, so that none of them can deny what it stated."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from modelkeep.core.errors import GovernError
from modelkeep.govern.ledger.entry import Event
from modelkeep.govern.ledger.file import LedgerFile
from modelkeep.govern.ledger.reader import parse
from modelkeep.govern.ledger.receipt import Receipt


class _Ledger(Protocol):
    """The ledger that holds them."""

    party: str

    def change(self) -> AbstractContextManager[None]: ...


class Receipts:
    """The receipts in one party's ledger."""

    def __init__(self, file: LedgerFile, ledger: _Ledger) -> None:
        self._file, self._ledger = file, ledger

    def keep(self, receipts: Sequence[Receipt]) -> None:
        """Keep them. A party that states two things under one number of its account is found out."""
        with self._ledger.change():
            for receipt in receipts:
                if receipt.party == self._ledger.party:
                    continue
                line = receipt.line()
                place = (receipt.party, receipt.event.number)
                kept = self._file.rows("SELECT line FROM receipts WHERE party = ? AND number = ?", *place)
                if kept and kept[0][0] != line:
                    raise GovernError(
                        f"'{receipt.party}' has signed two different statements with the number "
                        f"{receipt.event.number} of its account. Keep this ledger: it has one, and who sent this one "
                        "has the other."
                    )
                if not kept:
                    self._file.execute("INSERT INTO receipts VALUES (?, ?, ?)", *place, line)

    def all_prepared(self, party: str, number: int) -> list[Event]:
        """What a party has stated about passes of that number when it had prepared them."""
        found = self._file.rows(
            "SELECT line FROM receipts WHERE party = ? AND json_extract(line, '$.event.values.number') = ? "
            "AND json_extract(line, '$.event.kind') = 'prepared' ORDER BY number",
            party,
            number,
        )
        return [parse(Receipt, line).event for (line,) in found]

    def about(self, kind: str, attempt: str) -> list[Receipt]:
        """The other parties' statements of that kind about an attempt."""
        found = self._file.rows(
            "SELECT line FROM receipts WHERE json_extract(line, '$.event.values.attempt') = ? "
            "AND json_extract(line, '$.event.kind') = ? ORDER BY party",
            attempt,
            kind,
        )
        return [parse(Receipt, line) for (line,) in found]
