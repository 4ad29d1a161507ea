"""Pass and Consent: what is asked of every party before anything crosses, and what each one signs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import sha256
from operator import attrgetter
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from modelkeep.core.errors import GovernError
from modelkeep.core.signing import Signer, canonical, is_signed
from modelkeep.govern.documents import adapter

Purpose = Literal["train", "evaluate", "infer", "release", "check"]
T = TypeVar("T")
# The names of the fields of each kind of record, and what gets their values.
_FIELDS: dict[type, tuple[tuple[str, ...], attrgetter[tuple[Any, ...]]]] = {}


@dataclass(frozen=True)
class Pass:
    """One pass through the whole model, as it is asked for, consented to and logged.

    `number` counts all passes under the agreement from 0: it is the pass's place in every party's ledger. `step` is
    how many updates the weights have had when it begins. `source` brings the inputs and `sink` takes the outputs
    (and has the labels). `data` is the fingerprint of the inputs as the asker declares it and `labels` that of their
    labels (empty where no party needs them); `rows` examples pass in `parts` micro-batches: those of the recipe's batch
    for that step, or those from the `first` on.

    In a release no inputs pass: all hand out their pieces, and `sink` gets them. Nor do they in a check: the asker
    looks at the work of `sink`, and `data` is a random number that tells two checks apart.
    """

    agreement: str
    number: int
    purpose: Purpose
    asker: str
    source: str
    sink: str
    step: int
    data: str
    labels: str
    rows: int
    first: int = 0
    parts: int = 1

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of all of it, by which consents and ledgers name the pass."""
        return sha256(canonical(values_of(self))).hexdigest()

    def __str__(self) -> str:
        return f"pass {self.number} ({self.purpose}, asked by {self.asker})"


@dataclass(frozen=True)
class Consent:
    """A party's signature under one pass, for one attempt at it.

    `head` is the hash of that party's ledger entry two passes before (empty where there is none): so each party signs,
    with every consent, its own history, and the others keep it. Two, because the consent to a pass may be asked for
    while the pass before it is still under way. The consent holds in one `session`, until `expires` (seconds since
    1970, by the clock of its giver), and once: the `nonce` tells two consents to the same pass apart. Consents of
    version 0.1 have none of these three.
    """

    party: str
    head: str
    signature: str
    session: str = ""
    nonce: str = ""
    expires: int = 0

    @classmethod
    def give(
        cls, to: Pass, party: str, head: str, signer: Signer, *, session: str = "", nonce: str = "", expires: int = 0
    ) -> Consent:
        """Sign the pass."""
        unsigned = cls(party, head, "", session, nonce, expires)
        return replace(unsigned, signature=signer.sign(unsigned._content(to)))

    def check(self, to: Pass, public_key: str) -> None:
        """Refuse a consent that the party did not give to this pass."""
        if not is_signed(self._content(to), self.signature, public_key):
            raise GovernError(f"The consent of '{self.party}' to {to} is not signed by '{self.party}'.")

    def values(self) -> dict[str, Any]:
        """What is written of it: all but the fields that a consent of version 0.1 does not have."""
        found: dict[str, Any] = {"party": self.party, "head": self.head, "signature": self.signature}
        if self.session:
            found |= {"session": self.session, "nonce": self.nonce, "expires": self.expires}
        return found

    def _content(self, to: Pass) -> bytes:
        """What is signed."""
        signed = self.values()
        del signed["signature"]
        return canonical({"consents to": to.digest, **signed})


def values_of(record: Any) -> dict[str, Any]:
    """As `asdict`, but far faster, where no field holds another record: several are written at every pass."""
    kind = type(record)
    if kind not in _FIELDS:
        names = tuple(field.name for field in fields(kind))  # two or more: attrgetter gives no tuple of one
        _FIELDS[kind] = names, attrgetter(*names)
    names, values = _FIELDS[kind]
    return dict(zip(names, values(record), strict=True))


def name_attempt(consents: Sequence[Consent]) -> str:
    """The SHA-256 of all parties' consents: the name of the one attempt that they allow."""
    ordered = sorted(consents, key=lambda consent: consent.party)
    return sha256(canonical([consent.values() for consent in ordered])).hexdigest()


def read_pass(values: Mapping[str, Any]) -> Pass:
    """A pass from JSON values that came over the wire; anything else is refused."""
    return read(Pass, values)


def read_consent(values: Mapping[str, Any]) -> Consent:
    """A consent from JSON values that came over the wire; anything else is refused."""
    return read(Consent, values)


def read(kind: type[T], values: Any) -> T:
    """A dataclass from JSON values of another party: exact types, nothing missing, nothing more."""
    try:
        found: T = adapter(kind).validate_json(canonical(values), strict=True, extra="forbid")
    except (ValidationError, ValueError) as error:
        raise GovernError(f"This is no {kind.__name__.lower()}: {error}") from error
    return found
