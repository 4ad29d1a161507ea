"""Checks: what holds of one party's chain by itself, and what holds of the entries that all have of one pass.

Why a party cannot rewrite what was logged: it can make a new chain with its own key, but every consent that it
ever gave names the hash of its entry two passes before, and the others keep these consents. What no consent names yet
(the last two entries) is held against the others' entries of the same pass, field by field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from modelkeep.core.errors import GovernError
from modelkeep.govern.ledger.entry import Crossing, Entry, Event
from modelkeep.govern.ledger.findings import Findings
from modelkeep.govern.ledger.key_audit import LoggedKeys
from modelkeep.govern.ledger.reader import LedgerReader, parse
from modelkeep.govern.passes import Consent

T = TypeVar("T", Entry, Event)


def chain(
    kind: type[T], reading: LedgerReader, party: str, key: Callable[[str, int], str], findings: Findings
) -> Iterator[T]:
    """The entries or events of a ledger by rising numbers; what is wrong with them as a chain is noted on the way.

    `key` says which public key of a party signs the one of that number.
    """
    events = kind is Event
    what, expected = "event" if events else "entry", 0
    previous: str | None = ""
    lines = reading.lines("events" if events else "entries")
    while True:
        try:
            line = next(lines, None)
        except GovernError as error:
            findings.add("unreadable", party, expected, str(error), events=events)
            return
        if line is None:
            return
        try:
            link = parse(kind, line)
        except GovernError as error:
            findings.add("damaged", party, expected, _first_line(error), events=events)
            expected, previous = expected + 1, None
            continue
        number = link.number
        if number < expected:
            text = f"The {what} {number} comes after {what} {expected - 1}."
            findings.add("order", party, number, text, events=events)
            continue
        if number > expected:
            text = f"There is no {what} {expected}; the next one is {number}."
            findings.add("missing", party, expected, text, until=number - 1, events=events)
            previous = None
        if not link.is_of(party, key(party, number)):
            findings.add("signature", party, number, f"'{party}' has not signed this {what}.", events=events)
        if previous is not None and link.previous != previous:
            text = f"The {what} does not name the hash of the {what} before it, as that stands now."
            findings.add("chain", party, number, text, events=events)
        yield link
        expected, previous = number + 1, link.hash


@dataclass
class CrossCheck:
    """Holds the entries of one pass after the other against each other. `keys`: those of every party."""

    agreement: str
    keys: LoggedKeys
    findings: Findings
    _hashes: dict[str, dict[int, str]] = field(default_factory=dict)
    _valid: dict[tuple[str, Consent], bool] = field(default_factory=dict)

    def check(self, number: int, entries: Mapping[str, Entry], *, final: bool) -> None:
        """Check the entries of pass `number`, by party.

        `final`: some party has committed it, so all had logged it and none may change it. Before that, entries of one
        number may still be of different passes, as after a fault, and each is only checked for itself.
        """
        self._valid.clear()
        for party, entry in entries.items():
            self._check_alone(party, entry)
        if final:
            self._check_passes(number, entries)
            self._check_consents(number, entries)
            self._check_crossings(number, entries)
        for keeper, entry in entries.items():
            for consent in entry.consents:
                if (final or keeper == consent.party) and self._is_valid(entry, consent):
                    self._check_head(number, consent, keeper)
        for party, entry in entries.items():
            kept = self._hashes.setdefault(party, {})
            kept[number] = entry.hash
            kept.pop(number - 2, None)

    def _check_alone(self, party: str, entry: Entry) -> None:
        number = entry.number
        if entry.of.agreement != self.agreement:
            self.findings.add("agreement", party, number, f"{entry.of} ran under another agreement.")
        names = [consent.party for consent in entry.consents]
        if names != sorted(self.keys.names):
            due = ", ".join(sorted(self.keys.names))
            text = f"The consents are those of {', '.join(names) or 'no party'}, not of {due}."
            self.findings.add("consent", party, number, text)
        for consent in entry.consents:
            if consent.party in self.keys.names and not self._is_valid(entry, consent):
                text = f"The consent of '{consent.party}' is not signed by '{consent.party}'."
                self.findings.add("consent", party, number, text)
        for crossing in (*entry.sent, *entry.received):
            if crossing.peer == party or crossing.peer not in self.keys.names:
                self.findings.add(
                    "crossing", party, number, f"'{crossing.peer}' is not a party to send to or receive from."
                )

    def _check_passes(self, number: int, entries: Mapping[str, Entry]) -> None:
        if len({entry.of for entry in entries.values()}) > 1:
            usual, count = Counter(entry.of for entry in entries.values()).most_common(1)[0]
            example = next(party for party, entry in entries.items() if entry.of == usual)
            for party, entry in entries.items():
                if entry.of != usual:
                    text = f"'{party}' has logged another pass here than '{example}'."
                    self.findings.add("pass", party, number, text, peer="" if 2 * count > len(entries) else example)

    def _check_consents(self, number: int, entries: Mapping[str, Entry]) -> None:
        """A consent that two ledgers hold in two versions, both signed, was given twice: its giver is to blame."""
        for giver in self.keys.names:
            versions = {
                consent
                for entry in entries.values()
                for consent in entry.consents
                if consent.party == giver and self._is_valid(entry, consent)
            }
            if len(versions) > 1:
                text = f"'{giver}' has signed {len(versions)} different consents for this number."
                self.findings.add("consent", giver, number, text)

    def _check_crossings(self, number: int, entries: Mapping[str, Entry]) -> None:
        for sender, sending in entries.items():
            for receiver, receiving in entries.items():
                sent = _at_links(sending.sent, receiver)
                received = _at_links(receiving.received, sender)
                for link in sorted(sent.keys() | received.keys()):
                    if sent.get(link) != received.get(link):
                        where = f"{link[0].capitalize()} at stage {link[1]}, part {link[2]}"
                        said = f"'{sender}' says it sent {_describe(sent.get(link))}"
                        text = f"{where}: {said}, '{receiver}' that it received {_describe(received.get(link))}."
                        self.findings.add("crossing", sender, number, text, peer=receiver)

    def _check_head(self, number: int, consent: Consent, keeper: str) -> None:
        giver, before = consent.party, number - 2
        stands = "" if before < 0 else self._hashes.get(giver, {}).get(before)
        if stands is not None and consent.head != stands:
            text = (
                f"The consent of '{giver}' to pass {number}, which '{keeper}' keeps, names another hash for it: "
                f"{consent.head[:16] or 'none'}… instead of {stands[:16] or 'none'}…."
            )
            self.findings.add("rewritten", giver, max(before, 0), text)

    def _is_valid(self, entry: Entry, consent: Consent) -> bool:
        """Whether the consent was given to the entry's pass; the same one is in all ledgers, so once is enough."""
        key = (entry.of.digest, consent)
        if key not in self._valid:
            try:
                consent.check(entry.of, self.keys.at_pass(consent.party, entry.number))
                self._valid[key] = True
            except GovernError:
                self._valid[key] = False
        return self._valid[key]


def _at_links(crossings: tuple[Crossing, ...], peer: str) -> dict[tuple[str, int, int], Counter[tuple[str, int]]]:
    """What crossed to or from the peer at each link, as digests and bytes."""
    found: dict[tuple[str, int, int], Counter[tuple[str, int]]] = {}
    for crossing in crossings:
        if crossing.peer == peer:
            found.setdefault((crossing.what, crossing.at, crossing.part), Counter())[
                crossing.digest, crossing.bytes
            ] += 1
    return found


def _describe(crossed: Counter[tuple[str, int]] | None) -> str:
    return " and ".join(f"{size} bytes ({digest[:16]}…)" for digest, size in crossed or ()) or "nothing"


def _first_line(error: GovernError) -> str:
    return str(error).partition("\n")[0]
