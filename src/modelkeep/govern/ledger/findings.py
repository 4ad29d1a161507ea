"""Finding: what an audit found wrong, with whom and where."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal[
    "unreadable",  # the file is not a ledger, or not to the end
    "identity",  # it is another party's ledger, or of another key than the agreement names
    "agreement",  # the agreement is not signed by all, or a pass was logged under another one
    "damaged",  # a line is neither an entry nor an event
    "order",  # a number comes again, or comes too late
    "missing",  # a number is not there, though it must be
    "signature",  # an entry or event is not signed by its party
    "chain",  # an entry or event does not name the hash of the one before
    "consent",  # a consent is missing, forged, or was given in two versions
    "pass",  # two parties log different passes under one number
    "crossing",  # two parties do not agree on what crossed between them
    "rewritten",  # an entry or event is not the one that the party signed for the others
    "prepared",  # an entry is not the one of which its party stated that it was prepared
    "contradiction",  # a party's account says two things that cannot both be true
    "receipt",  # a party keeps a statement of another one that this one has not signed
    "key",  # a party logs a key change to which not all have consented, or that does not follow
    "check",  # what a party sent does not follow from its piece, says a party that has computed it again
    "forked",  # a party has signed two different events with one number: it keeps two accounts
]


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with entry `number` (to `until`, where the same is wrong with several) of a party.

    `number` is None where it is the whole ledger. `peer` is the other party where two ledgers contradict each other
    and nothing shows which of the two was changed. `events` says that the party's events are meant, not its entries.
    """

    kind: Kind
    party: str
    number: int | None
    until: int | None
    text: str
    peer: str = ""
    events: bool = False

    @property
    def where(self) -> str:
        """The party and the numbers, for a person."""
        whose = f"{self.party} and {self.peer}" if self.peer else self.party
        if self.number is None:
            return whose
        what = "event" if self.events else "entry"
        numbers = f"{self.number}" if self.until in (None, self.number) else f"{self.number} to {self.until}"
        return f"{whose}, {what} {numbers}"


class Findings:
    """Findings as they come in, each once; what is wrong with several numbers in a row is one finding."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, bool], list[Finding]] = {}

    def add(
        self,
        kind: Kind,
        party: str,
        number: int | None,
        text: str,
        *,
        until: int | None = None,
        peer: str = "",
        events: bool = False,
    ) -> None:
        """Take down a finding."""
        last = number if until is None else until
        alike = self._found.setdefault((kind, party, peer, events), [])
        if alike and number is not None and last is not None and (before := alike[-1].until) is not None:
            if last <= before:
                return
            if number <= before + 1:
                alike[-1] = replace(alike[-1], until=last)
                return
        alike.append(Finding(kind, party, number, last, text, peer, events))

    def all(self) -> tuple[Finding, ...]:
        """All findings: whole ledgers first, then in the order of the numbers."""
        found = [finding for alike in self._found.values() for finding in alike]
        return tuple(sorted(found, key=lambda f: (f.number is not None, f.number or 0, f.events, f.party, f.kind)))
