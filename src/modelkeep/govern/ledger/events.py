"""Event: what happened to a party besides the passes (refusals, withdrawals, recoveries), in its own signed chain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from typing import Any, Self

from modelkeep.core.signing import Signer, canonical
from modelkeep.govern.ledger.entry import is_sealed, seal


@dataclass(frozen=True)
class Event:
    """One thing that happened at `time` (seconds since 1970), in words and in values.

    It is the party's own account: nobody else signs it, so a party can leave its last events away unnoticed.
    """

    number: int
    time: float
    kind: str
    text: str
    values: dict[str, Any]
    previous: str
    signature: str

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of all but the signature."""
        content = self._content()
        del content["signature"]
        return sha256(canonical(content)).hexdigest()

    @classmethod
    def sign(
        cls,
        number: int,
        time: float,
        kind: str,
        text: str,
        values: Mapping[str, Any],
        *,
        previous: str,
        party: str,
        signer: Signer,
    ) -> Self:
        """The event of the party whose signer it is."""
        unsigned = cls(number, time, kind, text, dict(values), previous, "")
        signature = seal("event", unsigned.hash, party, signer)
        return cls(number, time, kind, text, dict(values), previous, signature)

    def is_of(self, party: str, public_key: str) -> bool:
        """Whether the party signed it."""
        return is_sealed("event", self.hash, self.signature, party, public_key)

    def line(self) -> str:
        """The one line of JSON as which it is kept."""
        return canonical(self._content()).decode()

    def _content(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}
