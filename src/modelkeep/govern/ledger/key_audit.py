"""Which key spoke for whom and when, as the ledgers show it: every key change that is logged is checked anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from modelkeep.core.errors import GovernError
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.agreement.key_change import KeyChange
from modelkeep.govern.agreement.key_history import KeyHistory
from modelkeep.govern.ledger.entry import Event
from modelkeep.govern.ledger.findings import Findings
from modelkeep.govern.ledger.reader import LedgerReader
from modelkeep.govern.passes import read


@dataclass(frozen=True)
class LoggedKeys:
    """The keys of all parties. `taken` says from which event of its own account on a party speaks with which key."""

    history: KeyHistory
    taken: Mapping[str, list[tuple[int, str]]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """All parties."""
        return self.history.names

    def ever(self, party: str) -> set[str]:
        """All keys of the party, also one that it got by a change which excludes another."""
        return {*self.history.ever(party), *(key for _, key in self.taken.get(party, []))}

    def at_pass(self, party: str, number: int) -> str:
        """The key with which the party consents to a pass, and logs it."""
        return self.history.at_pass(party, number)

    def at_event(self, party: str, number: int) -> str:
        """The key with which the party signs the event of that number."""
        keys = [key for first, key in self.taken.get(party, []) if first <= number]
        return keys[-1] if keys else self.history.ever(party)[0]

    def has_stated(self, party: str, event: Event) -> bool:
        """Whether the party has signed this event with a key that spoke for it then, as far as it says when."""
        if party not in self.names:
            return False
        number = event.values.get("number")
        keys = self.history.until(party, number) if type(number) is int else self.ever(party)
        return any(event.is_of(party, key) for key in keys if key)


def read_keys(agreement: Agreement, readings: Mapping[str, LedgerReader], findings: Findings) -> LoggedKeys:
    """The keys as the agreement and the ledgers say them. A change that does not follow is found, and not followed."""
    logged = {keeper: list(_read_changes(keeper, reading, findings)) for keeper, reading in readings.items()}
    ordered = sorted(
        ((change, keeper, event) for keeper, found in logged.items() for event, change in found),
        key=lambda each: (each[0].number, each[0].kind == "leave", each[0].digest),
    )
    history, own = KeyHistory(agreement), list[tuple[str, int, KeyChange]]()
    for change, keeper, event in ordered:
        place = next((i for i, each in enumerate(history.changes) if each.digest == change.digest), None)
        try:
            followed = KeyHistory(agreement, history.changes[:place]).follow(change)
        except GovernError as error:
            if not _is_forked(change, history):
                text = f"'{keeper}' logs a key change that does not hold. {error}"
                findings.add("key", keeper, event, text, events=True)
                continue
            last = change.required(history.names)[0]
            text = f"'{last}' has completed two key changes with the number {change.number}, which exclude each other."
            findings.add("forked", last, None, text)
        else:
            history = followed if place is None else history
        if change.party == keeper:
            own.append((keeper, event, change))
    for change in history.changes:
        for keeper, reading in readings.items():
            if reading.committed > change.passes and change.digest not in {each.digest for _, each in logged[keeper]}:
                text = f"'{keeper}' went on with pass {change.passes} and has not logged the {change}."
                findings.add("key", keeper, change.passes, text)
    return LoggedKeys(history, _first_events(history, own))


def _first_events(history: KeyHistory, own: list[tuple[str, int, KeyChange]]) -> dict[str, list[tuple[int, str]]]:
    """From which event of its account on each party signs with which key. A revocation is logged with the next key."""
    taken: dict[str, list[tuple[int, str]]] = {}
    digests = [change.digest for change in history.changes]
    for keeper, event, change in own:
        later = history.changes[digests.index(change.digest) :] if change.digest in digests else (change,)
        key = next((each.new_key for each in later if each.party == keeper and each.new_key), "")
        if key:
            taken.setdefault(keeper, []).append((event, key))
    return taken


def _read_changes(keeper: str, reading: LedgerReader, findings: Findings) -> Iterator[tuple[int, KeyChange]]:
    try:
        for event in reading.key_changes():
            try:
                yield event.number, read(KeyChange, event.values.get("change"))
            except GovernError:
                findings.add("key", keeper, event.number, f"What '{keeper}' logs is not a key change.", events=True)
    except GovernError:
        return  # what cannot be read is found when the chain is followed


def _is_forked(change: KeyChange, history: KeyHistory) -> bool:
    """Whether the change is complete, and so is another one of this number that the same party has signed last."""
    if change.number >= len(history.changes):
        return False
    rival = history.changes[change.number]
    try:
        KeyHistory(history.agreement, history.changes[: change.number]).follow(change)
    except GovernError:
        return False
    return rival.digest != change.digest and rival.required(history.names)[0] == change.required(history.names)[0]
