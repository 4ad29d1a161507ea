"""Receipt: what another party has stated about an attempt at a pass, signed, and in its account before it was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelkeep.core.errors import WireError
from modelkeep.core.signing import canonical
from modelkeep.govern.ledger.entry import Event
from modelkeep.govern.passes import read, values_of


@dataclass(frozen=True)
class Receipt:
    """An event of the account of `party`. It names the hash of the event before, and so all of them."""

    party: str
    event: Event

    def values(self) -> dict[str, Any]:
        """What is written of it."""
        return {"party": self.party, "event": values_of(self.event)}

    def line(self) -> str:
        """The one line of JSON as which it is kept, with its keys in order."""
        return f'{{"event":{self.event.line()},"party":{canonical(self.party).decode()}}}'

    def check(self, public_key: str) -> None:
        """Refuse what the party has not signed."""
        if not self.event.is_of(self.party, public_key):
            raise WireError(f"The statement '{self.event.kind}' of '{self.party}' is not signed by '{self.party}'.")


def read_receipts(values: Any) -> list[Receipt]:
    """Receipts from JSON values that came over the wire; anything else is refused."""
    if not isinstance(values, list):
        raise WireError("Statements of the parties were due, and none came.")
    return [read(Receipt, each) for each in values]


def require_statements(
    receipts: Sequence[Receipt],
    kind: str,
    keys: Mapping[str, str],
    values: Mapping[str, Any],
    own: Receipt | None = None,
) -> None:
    """Refuse anything but one statement of this kind and of these values from every party, each signed by it.

    The party that asks knows its `own` without looking at the signature.
    """
    names = sorted(receipt.party for receipt in receipts)
    if names != sorted(keys):
        raise WireError(f"Every party must state '{kind}'. Statements came of {', '.join(names) or 'none'}.")
    for receipt in receipts:
        if receipt != own:
            require_statement(receipt, kind, keys, values)


def require_statement(receipt: Receipt, kind: str, keys: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Refuse anything but a statement of this kind and of these values, signed by its party."""
    event = receipt.event
    differing = [name for name, value in values.items() if event.values.get(name) != value]
    if event.kind != kind or differing:
        told = f"of another {differing[0]}" if differing and event.kind == kind else f"'{event.kind}'"
        raise WireError(f"'{receipt.party}' must state '{kind}' about this attempt. Its statement is {told}.")
    receipt.check(keys[receipt.party])
