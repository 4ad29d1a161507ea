"""What a ledger holds: an entry for each pass, and an event for what happens besides, each in a chain of its own.

Each entry and each event names the hash of the one before it, and the party signs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, Self, TypeVar

from modelkeep.core.signing import Signer, canonical, is_signed
from modelkeep.govern.passes import Consent, Pass, values_of

# Where the signature of an event stands among its keys. Before it come only words whose quotes are escaped.
_AFTER_SIGNATURE = ',"text":'


@dataclass(frozen=True)
class Crossing:
    """What crossed between two stages in one micro-batch: to or from whom, and its BLAKE3 digest and size.

    `at` is the lower stage of the link, so that both ends of it name it alike; `part` is the micro-batch.
    """

    peer: str
    what: Literal["activations", "gradients", "answers", "opening"]
    at: int
    part: int
    digest: str
    bytes: int


@dataclass(frozen=True)
class Entry:
    """One pass: who consented to it, what crossed, and what this party says that it measured.

    It holds no times, so that a replayed pass gives the same. `previous` is the hash of the entry before (empty for the
    first one). `metrics` are those of the party with the labels.
    """

    of: Pass
    consents: tuple[Consent, ...]
    sent: tuple[Crossing, ...]
    received: tuple[Crossing, ...]
    previous: str
    signature: str
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The pass's number: the place of the entry in the ledger."""
        return self.of.number

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of all but the signature."""
        return sha256(self._body).hexdigest()

    @cached_property
    def _body(self) -> bytes:
        """All but the signature, as it is hashed."""
        body: dict[str, Any] = {
            "of": values_of(self.of),
            "consents": [consent.values() for consent in self.consents],
            "sent": [values_of(crossing) for crossing in self.sent],
            "received": [values_of(crossing) for crossing in self.received],
            "previous": self.previous,
        }
        if self.metrics:  # an entry of version 0.1 has none, and keeps its hash
            body["metrics"] = self.metrics
        return canonical(body)

    def tells_the_same(self, other: Entry) -> bool:
        """Whether both are of the same pass, with the same numbers; each attempt at it has consents of its own."""
        return all(getattr(self, name) == getattr(other, name) for name in ("of", "sent", "received", "metrics"))

    @classmethod
    def sign(
        cls,
        of: Pass,
        consents: Sequence[Consent],
        sent: Sequence[Crossing],
        received: Sequence[Crossing],
        metrics: Mapping[str, float],
        *,
        previous: str,
        party: str,
        signer: Signer,
    ) -> Self:
        """The entry of the party whose signer it is, the consents in the order of the names."""
        ordered = tuple(sorted(consents, key=lambda consent: consent.party))
        unsigned = cls(of, ordered, tuple(sent), tuple(received), previous, "", dict(metrics))
        return _add_signature(unsigned, seal("entry", unsigned.hash, party, signer))

    def is_of(self, party: str, public_key: str) -> bool:
        """Whether the party signed it."""
        return _is_sealed("entry", self.hash, self.signature, party, public_key)

    def line(self) -> str:
        """The one line of JSON as which it is kept."""
        return f'{self._body[:-1].decode()},"signature":"{self.signature}"}}'


@dataclass(frozen=True)
class Event:
    """One thing that happened at `time` (seconds since 1970), in words and in values.

    It is the party's own account. What the protocol makes it say (its intent, what it has prepared) goes to the others,
    who keep it as a `Receipt`: so they can show all that stands before it in the chain.
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
        return sha256(self._body).hexdigest()

    @cached_property
    def _body(self) -> bytes:
        """All but the signature, as it is hashed."""
        content = values_of(self)
        del content["signature"]
        return canonical(content)

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
        return _add_signature(unsigned, seal("event", unsigned.hash, party, signer))

    def is_of(self, party: str, public_key: str) -> bool:
        """Whether the party signed it."""
        return _is_sealed("event", self.hash, self.signature, party, public_key)

    def line(self) -> str:
        """The one line of JSON as which it is kept, with its keys in order."""
        before, key, after = self._body.decode().partition(_AFTER_SIGNATURE)
        return f'{before},"signature":{canonical(self.signature).decode()}{key}{after}'


T = TypeVar("T", bound="Entry | Event")


def _add_signature(unsigned: T, signature: str) -> T:
    """The same with its signature. What was computed of the rest is kept: it is most of the work of a record."""
    signed = replace(unsigned, signature=signature)
    vars(signed).update(_body=unsigned._body, hash=unsigned.hash)
    return signed


def seal(kind: Literal["entry", "event"], digest: str, party: str, signer: Signer) -> str:
    """The signature under the hash of an entry or event; it says which, so that none can stand for another."""
    return signer.sign(canonical({kind: digest, "party": party}))


def _is_sealed(kind: Literal["entry", "event"], digest: str, signature: str, party: str, public_key: str) -> bool:
    """Whether the party signed this entry or event."""
    return is_signed(canonical({kind: digest, "party": party}), signature, public_key)
