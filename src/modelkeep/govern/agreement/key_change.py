"""KeyChange: another key for a party, or none, as one party asks for it and the others consent to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ConfigDict

from modelkeep.core.errors import GovernError
from modelkeep.core.signing import Signer, canonical, is_signed
from modelkeep.govern.documents import read_document, write_document
from modelkeep.govern.identity import PUBLIC_KEY, PublicIdentity, require_name

Kind = Literal["rotate", "replace", "revoke", "leave"]

_LONGEST = 200
EVENT = "key change"
"""The kind of event as which every party logs it."""


@dataclass(frozen=True)
class KeyChange:
    """One change, as it is asked for, consented to and logged.

    | kind | new key | asked for by | consented to by |
    |---|---|---|---|
    | `rotate` | yes | the party, with its old key | all, the party with its old key |
    | `replace` | yes | another party: the old key is lost or stolen | all others |
    | `revoke` | no | another party: the old key is lost or stolen | all others |
    | `leave` | no | the party | the party: nothing runs under this agreement any more |

    `number` and `previous` (the digest of the change before) are its place among all changes under the agreement. The
    new key speaks from the pass with the number `passes` on: so many are committed. `proof` shows that the party has
    the new key (`PublicIdentity`). `request` is the asker's signature, `consents` are those of the others by name.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    agreement: str
    number: int
    previous: str
    kind: Kind
    party: str
    old_key: str
    new_key: str
    passes: int
    asker: str
    reason: str = ""
    proof: str = ""
    request: str = ""
    consents: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if min(self.number, self.passes) < 0:
            raise GovernError(f"A key change counts from 0. Got number {self.number} and {self.passes} passes.")
        if not self.reason.isprintable() or len(self.reason) > _LONGEST:  # a person reads it before signing
            raise GovernError(f"The reason of a key change is one line of at most {_LONGEST} printable characters.")
        for name in (self.party, self.asker, *self.consents):
            require_name(name)
        if (self.kind in ("rotate", "replace")) != bool(self.new_key):
            raise GovernError(f"To {self.kind} a key takes {'no' if self.new_key else 'a'} new key.")
        if (self.kind in ("rotate", "leave")) != (self.party == self.asker):
            raise GovernError(f"'{self.asker}' cannot ask to {self.kind} the key of '{self.party}'.")
        if self.old_key and not PUBLIC_KEY.fullmatch(self.old_key):
            raise GovernError(f"The old key of '{self.party}' is not 64 hexadecimal digits.")
        if self.new_key:
            PublicIdentity(self.party, self.new_key, self.proof)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of what is asked for, by which all signatures name it."""
        content = asdict(self)
        for signed in ("proof", "request", "consents"):
            del content[signed]
        return sha256(canonical(content)).hexdigest()

    def required(self, names: Iterable[str]) -> list[str]:
        """Who of these parties must consent, in the order of the names."""
        if self.kind == "leave":
            return [self.party]
        return sorted(name for name in names if self.kind == "rotate" or name != self.party)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Who of these parties must consent and has not."""
        return [name for name in self.required(names) if name not in self.consents]

    def ask(self, signer: Signer) -> KeyChange:
        """The change with the asker's signature."""
        return replace(self, request=signer.sign(self._asked()))

    def consent(self, party: str, signer: Signer) -> KeyChange:
        """The change with the party's consent."""
        return replace(self, consents={**self.consents, party: signer.sign(self._consented(party))})

    def is_asked_with(self, public_key: str) -> bool:
        """Whether the request was signed with this key."""
        return is_signed(self._asked(), self.request, public_key)

    def is_consented_with(self, party: str, public_key: str) -> bool:
        """Whether the consent of the party was signed with this key."""
        return is_signed(self._consented(party), self.consents.get(party, ""), public_key)

    def _asked(self) -> bytes:
        return canonical({"asks for key change": self.digest, "party": self.asker})

    def _consented(self, party: str) -> bytes:
        return canonical({"consents to key change": self.digest, "party": party})

    @classmethod
    def read(cls, path: str | Path) -> KeyChange:
        """Read the file that goes from party to party."""
        return read_document(cls, Path(path), "a key change")

    def write(self, path: str | Path) -> Path:
        """Write the file to hand on."""
        return write_document(self, Path(path))

    def __str__(self) -> str:
        done = {
            "rotate": f"'{self.party}' takes another key",
            "replace": f"'{self.party}' gets another key, since its old one is lost",
            "revoke": f"the key of '{self.party}' is revoked",
            "leave": f"'{self.party}' leaves",
        }[self.kind]
        why = f" ({self.reason})" if self.reason else ""
        return f"key change {self.number}: from pass {self.passes} on, {done}{why}"
