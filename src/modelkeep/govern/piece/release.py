"""Release: the proof that all parties have let the pieces out, and of which state; it stands in each piece's file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from modelkeep.core.errors import GovernError
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.signing import canonical
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.agreement.key_change import KeyChange
from modelkeep.govern.agreement.key_history import KeyHistory
from modelkeep.govern.ledger.reader import LedgerReader
from modelkeep.govern.ledger.receipt import Receipt, read_receipts, require_statements
from modelkeep.govern.passes import Pass, read, read_pass


@dataclass(frozen=True)
class Release:
    """A pass for which every party let its piece out, and what each one stated when it had prepared it.

    A party states no such thing without its own consent, so the statements of all show the consent of all. `changes`
    are the key changes until then.
    """

    of: Pass
    prepared: tuple[Receipt, ...]
    changes: tuple[KeyChange, ...] = ()

    def line(self) -> str:
        """The line of JSON as which it is kept."""
        told = {"pass": asdict(self.of), "prepared": [asdict(receipt) for receipt in self.prepared]}
        return canonical({**told, "changes": [asdict(change) for change in self.changes]}).decode()

    def check(self, agreement: Agreement, party: str, tensors: Mapping[str, torch.Tensor]) -> None:
        """Refuse a piece that is not the one that its party let out with the consent of all."""
        if self.of.agreement != agreement.fingerprint or self.of.purpose != "release":
            raise GovernError(f"The piece of '{party}' comes with {self.of}, which is no release of this agreement.")
        history = KeyHistory.of(agreement, self.changes)
        keys = {name: history.at_pass(name, self.of.number) for name in history.names}
        own = next((each.event.values for each in self.prepared if each.party == party), {})
        about = {"pass": self.of.digest, "number": self.of.number, "attempt": own.get("attempt")}
        require_statements(self.prepared, "prepared", keys, about)
        if own.get("piece") != fingerprint(dict(tensors), party):
            raise GovernError(
                f"The piece of '{party}' is another one than it let out after {self.of.step} updates, with the consent "
                "of all. Ask for the file that `modelkeep govern export` wrote after that release."
            )


def read_release(text: str | None, party: str) -> Release:
    """The proof in the file of a piece."""
    if text is None:
        raise GovernError(
            f"The piece of '{party}' was not released: nothing shows that all parties consented. One of them asks for "
            "it with `modelkeep govern release`, the others approve it, and each one exports its piece."
        )
    try:
        values: Any = json.loads(text)
        changes = tuple(read(KeyChange, each) for each in values["changes"])
        return Release(read_pass(values["pass"]), tuple(read_receipts(values["prepared"])), changes)
    except (ValueError, KeyError, TypeError, GovernError) as error:
        raise GovernError(f"The release of the piece of '{party}' cannot be read: {error}") from error


def find_release(ledger: LedgerReader) -> Release | None:
    """The last release that the party of the ledger has committed."""
    entries = [entry for entry in ledger.entries() if entry.of.purpose == "release" and entry.number < ledger.committed]
    if not entries:
        return None
    of = entries[-1].of
    events = [event for event in ledger.events() if event.values.get("pass") == of.digest]
    attempt = next((event.values["attempt"] for event in reversed(events) if event.kind == "committed"), None)
    own = [Receipt(ledger.party, event) for event in events if _is_about(event.kind, event.values, attempt)]
    theirs = [each for each in ledger.receipts() if _is_about(each.event.kind, each.event.values, attempt)]
    changes = tuple(read(KeyChange, event.values.get("change")) for event in ledger.key_changes())
    return Release(of, (*theirs, *own), changes)


def _is_about(kind: str, values: Mapping[str, Any], attempt: str | None) -> bool:
    return kind == "prepared" and values.get("attempt") == attempt
