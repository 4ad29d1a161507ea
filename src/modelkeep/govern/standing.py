"""Standing: how a party stands by its own files: who asked for what, what became of it, and what remains."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from textwrap import wrap
from typing import Any

from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.consent.policy import PURPOSES, Policy
from modelkeep.govern.consent.state import ConsentState
from modelkeep.govern.documents import read_document
from modelkeep.govern.folder import Folder
from modelkeep.govern.ledger import Event, read_ledger
from modelkeep.govern.ledger.budgets import Budget, count_budgets
from modelkeep.govern.ledger.history import WIDTH, History, HistoryLine, write_statement
from modelkeep.govern.ledger.statements import Account

_EVENTS = 5  # of the newest that are in the JSON
_LINES = 20  # of the newest that are shown
_PROTOCOL = ("standing", "intent", "prepared", "committed", "board")  # they come with every session and pass


@dataclass
class Standing:
    """How a party stands: `about` in numbers, the lines of its account, and what it still allows."""

    about: dict[str, Any]
    parties: list[str]
    lines: list[HistoryLine]
    budgets: list[Budget]

    def values(self) -> dict[str, Any]:
        """All of it as JSON."""
        left = {each.purpose: each.left for each in self.budgets if each.left is not None}
        told = {"left": left, "budgets": [each.values() for each in self.budgets]}
        return {**self.about, **told, "lines": [asdict(line) for line in self.lines]}

    def text(self, everything: bool) -> str:
        """All of it as a bank statement; the last lines only, unless `everything` is wanted."""
        about = self.about
        told = (
            f"{about['party']} · agreement '{about['agreement']}', signed by {about['signed']} of {len(self.parties)}"
        )
        moved = f"sent {about['sent'] / 1e6:,.1f} MB, received {about['received'] / 1e6:,.1f} MB"
        done = f"{about['committed']:,} of {about['entries']:,} passes committed, {about['updates']:,} updates; {moved}"
        shown = self.lines if everything else self.lines[-_LINES:]
        earlier = len(self.lines) - len(shown)
        parts = [told, done, ""]
        if earlier:
            parts.append(f"({earlier:,} earlier lines: --all)")
        parts += [write_statement(shown, self.parties, of=about["party"]), "", "What remains"]
        for budget in self.budgets:
            parts += wrap(str(budget), WIDTH, initial_indent=f"  {budget.purpose:10}", subsequent_indent=" " * 12)
        return "\n".join(parts)


def read_standing(party: Folder) -> Standing:
    """Read how the party of this folder stands. Nothing is changed, also while it serves."""
    identity, agreement = party.public(), Agreement.read(party.agreement)
    history, account = History(identity.name), Account(identity.name)
    about = {"party": identity.name, "agreement": agreement.name, "signed": len(agreement.signatures)}
    about |= _read_ledger(party, account, history)
    policies = [agreement.policy(identity.name)]
    if party.policy.exists():
        policies.append(read_document(Policy, party.policy, "a policy"))
    with _consents(party) as state:
        withdrawn = {} if state is None else {each: state.withdrawal(each) for each in PURPOSES}
        budgets = count_budgets(policies, account, state, time.time())
    about["withdrawn"] = {purpose: why for purpose, why in withdrawn.items() if why is not None}
    return Standing(about, [member.name for member in agreement.parties], history.lines(), budgets)


def _read_ledger(party: Folder, account: Account, history: History) -> dict[str, Any]:
    """What the ledger says in numbers; account and history take its events."""
    found: dict[str, Any] = {"entries": 0, "committed": 0, "updates": 0, "sent": 0, "received": 0, "passes": []}
    found |= {"events": [], "given_up": {}}
    if not party.ledger.exists():
        return found
    reading = read_ledger(party.ledger)
    found["committed"] = reading.committed
    passes: Counter[tuple[str, str]] = Counter()
    for entry in reading.entries():
        passes[entry.of.purpose, entry.of.asker] += 1
        found["sent"] += sum(crossing.bytes for crossing in entry.sent)
        found["received"] += sum(crossing.bytes for crossing in entry.received)
    found["entries"] = sum(passes.values())
    found["updates"] = sum(count for (purpose, _), count in passes.items() if purpose == "train")
    found["passes"] = [{"purpose": p, "asker": a, "passes": count} for (p, a), count in passes.items()]
    last: deque[Event] = deque(maxlen=_EVENTS)
    for event in reading.events():
        account.take(event)
        history.take(event)
        if event.kind not in _PROTOCOL:
            last.append(event)
    found["given_up"] = dict(Counter(end.purpose for end in account.given_up()))
    found["events"] = [{"time": _clock(each.time), "kind": each.kind, "text": each.text} for each in last]
    return found


@contextmanager
def _consents(party: Folder) -> Iterator[ConsentState | None]:
    """What the party has withdrawn and approved, if it ever has."""
    if not party.consent.exists():
        yield None
        return
    state = ConsentState(party.consent)
    try:
        yield state
    finally:
        state.close()


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S")
