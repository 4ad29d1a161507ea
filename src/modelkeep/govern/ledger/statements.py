"""What the parties have stated to each other, held against their own accounts, and every attempt that did not count.

Two events of one party with one number, both signed by it, prove that it keeps two accounts. A receipt that is not in
its party's account proves that the account was changed after it was shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from modelkeep.core.errors import GovernError
from modelkeep.govern.consent.policy import Policy
from modelkeep.govern.ledger.entry import Event
from modelkeep.govern.ledger.findings import Findings
from modelkeep.govern.ledger.key_audit import LoggedKeys
from modelkeep.govern.ledger.reader import LedgerReader
from modelkeep.govern.ledger.receipt import Receipt

ENDS = ("committed", "given up", "lost")


@dataclass(frozen=True)
class AttemptEnd:
    """How an attempt at a pass ended at one party, and what it had received by then (None: that is not known)."""

    party: str
    number: int
    purpose: str
    ended: str
    received: int | None
    text: str


@dataclass
class Account:
    """What one party's events say about attempts: the intents, by their names, and how each ended."""

    party: str
    hashes: dict[int, str] = field(default_factory=dict)
    intents: dict[str, Event] = field(default_factory=dict)
    prepared: dict[str, Event] = field(default_factory=dict)
    ends: dict[str, Event] = field(default_factory=dict)
    boards: list[Event] = field(default_factory=list)
    contradictions: list[tuple[Event, str]] = field(default_factory=list)
    standings: list[Event] = field(default_factory=list)
    _committed: int = 0

    def take(self, event: Event) -> None:
        """Read the next event."""
        self.hashes[event.number] = event.hash
        name, number = event.values.get("attempt"), event.values.get("number")
        if event.kind == "committed" and type(number) is int:
            self._committed = max(self._committed, number + 1)
        if event.kind == "standing":
            self.standings.append(event)
        if event.kind == "standing" and event.values.get("committed") != self._committed and self._committed:
            told = f"It says that {event.values.get('committed')} passes are committed, after it had committed "
            self.contradictions.append((event, f"{told}{self._committed}."))
        if event.kind == "board":
            self.boards.append(event)
        if isinstance(name, str) and event.kind == "intent":
            self.intents[name] = event
        elif isinstance(name, str) and event.kind == "prepared":
            self.prepared[name] = event
        elif isinstance(name, str) and event.kind in ENDS:
            self.ends[name] = event

    def given_up(self) -> list[AttemptEnd]:
        """The attempts that did not come to their end."""
        found = []
        for name, intent in self.intents.items():
            end = self.ends.get(name)
            if end is not None and end.kind == "committed":
                continue
            received: Any = None if end is None else end.values.get("received")
            found.append(
                AttemptEnd(
                    self.party,
                    int(intent.values.get("number", -1)),
                    str(intent.values.get("purpose")),
                    "not ended" if end is None else end.kind,
                    len(received) if isinstance(received, list) else None,
                    "" if end is None else end.text,
                )
            )
        return found

    def count(self, purpose: str) -> int:
        """How many passes for a purpose were begun; attempts at the same pass count once."""
        return len({each.values.get("pass") for each in self.intents.values() if each.values.get("purpose") == purpose})


def check_statements(
    accounts: Mapping[str, Account],
    readings: Mapping[str, LedgerReader],
    keys: LoggedKeys,
    policies: Mapping[str, Policy],
    findings: Findings,
) -> None:
    """Hold all receipts against the accounts of who gave them, and each attempt against the receipts for it."""
    held: dict[tuple[str, int], tuple[str, Receipt]] = {}
    stood: dict[tuple[str, str], Event] = {}
    for keeper, reading in readings.items():
        intents: dict[str, set[str]] = {}
        for receipt in _read(reading, keeper, findings):
            _check_receipt(keeper, receipt, accounts, keys, held, findings)
            _find_verdict(receipt.party, receipt.event, findings)
            _check_standing(receipt.party, receipt.event, stood, findings)
            name = receipt.event.values.get("attempt")
            if isinstance(name, str) and receipt.event.kind == "intent":
                intents.setdefault(name, set()).add(receipt.party)
        for event in accounts[keeper].standings:
            _check_standing(keeper, event, stood, findings)
        for event in accounts[keeper].prepared.values():
            _find_verdict(keeper, event, findings)
        for event, text in accounts[keeper].contradictions:
            findings.add("contradiction", keeper, event.number, text, events=True)
        if reading.format > 1:
            _check_entries(accounts[keeper], reading, findings)
            _check_attempts(accounts[keeper], intents, set(keys.names) - {keeper}, findings)
        _check_most(accounts[keeper], policies.get(keeper, Policy()), findings)


def _read(reading: LedgerReader, keeper: str, findings: Findings) -> Iterable[Receipt]:
    try:
        yield from reading.receipts()
    except GovernError as error:
        findings.add("unreadable", keeper, None, f"What others have stated to '{keeper}' cannot be read: {error}")


def _check_receipt(
    keeper: str,
    receipt: Receipt,
    accounts: Mapping[str, Account],
    keys: LoggedKeys,
    held: dict[tuple[str, int], tuple[str, Receipt]],
    findings: Findings,
) -> None:
    giver, number = receipt.party, receipt.event.number
    if not keys.has_stated(giver, receipt.event):
        text = f"'{keeper}' keeps a statement '{receipt.event.kind}' of '{giver}' that '{giver}' has not signed."
        findings.add("receipt", keeper, number, text, events=True)
        return
    other, before = held.setdefault((giver, number), (keeper, receipt))
    if before.event.hash != receipt.event.hash:
        text = f"'{giver}' has signed two statements with this number: one is with '{other}', one with '{keeper}'."
        findings.add("forked", giver, number, text, events=True)
        return
    account = accounts.get(giver)
    if account is not None and account.hashes.get(number) != receipt.event.hash:
        stands = "another event" if number in account.hashes else "nothing"
        text = f"'{keeper}' keeps the statement '{receipt.event.kind}' with this number, and there is {stands}."
        findings.add("rewritten", giver, number, text, events=True)


def _check_standing(party: str, event: Event, stood: dict[tuple[str, str], Event], findings: Findings) -> None:
    """A party says once in each session where it stands; who says it twice tells two others different things."""
    if event.kind == "standing":
        first = stood.setdefault((party, str(event.values.get("session"))), event)
        if first.hash != event.hash:
            text = f"'{party}' has said twice in one session where it stands: also in event {first.number}."
            findings.add("contradiction", party, event.number, text, events=True)


def _find_verdict(checker: str, event: Event, findings: Findings) -> None:
    """What a checker has stated against the party whose work it computed again."""
    verdict: Any = event.values.get("verdict")
    if event.kind == "prepared" and isinstance(verdict, dict) and verdict.get("wrong"):
        number = verdict.get("number")
        text = f"'{checker}' has computed this pass of '{verdict.get('party')}' again: {verdict['wrong']}"
        findings.add("check", str(verdict.get("party")), number if type(number) is int else None, text)


def _check_entries(account: Account, reading: LedgerReader, findings: Findings) -> None:
    """Every entry that was prepared under this protocol is the one that its party stated to the others."""
    stated = {(each.values.get("number"), each.values.get("entry")) for each in account.prepared.values()}
    numbers = {number for number, _ in stated}
    with suppress(GovernError):  # what cannot be read was found before
        for entry in reading.entries():
            if entry.number in numbers and (entry.number, entry.hash) not in stated:
                text = f"'{account.party}' has stated to the others that it prepared another entry than this one."
                findings.add("prepared", account.party, entry.number, text)


def _check_attempts(account: Account, intents: Mapping[str, set[str]], others: set[str], findings: Findings) -> None:
    """Nothing may have crossed at a party that does not hold every other party's intent for that attempt."""
    for name, intent in account.intents.items():
        end = account.ends.get(name)
        received: Any = None if end is None else end.values.get("received")
        missing = others - intents.get(name, set())
        if missing and (name in account.prepared or (isinstance(received, list) and received)):
            text = (
                f"Something has crossed in this attempt, and '{account.party}' holds no intent of {', '.join(missing)}."
            )
            findings.add("consent", account.party, intent.number, text, events=True)


def _check_most(account: Account, policy: Policy, findings: Findings) -> None:
    """No more passes may have been begun than the party's agreed policy allows, also if they were given up."""
    for purpose, most in policy.most.items():
        begun = account.count(purpose)
        if begun > most:
            text = f"{begun} passes to {purpose} were begun, and the agreed policy of '{account.party}' allows {most}."
            findings.add("consent", account.party, None, text)
