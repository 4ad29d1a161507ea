"""Agreement: what all parties sign before anything runs: the model, its cuts, who holds what, how it is trained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import ConfigDict, SerializerFunctionWrapHandler, WrapSerializer, model_serializer

from modelkeep.core.card import Card, leave_out_defaults
from modelkeep.core.errors import GovernError, InputError, Remedy
from modelkeep.core.formats.factory import SPEC
from modelkeep.core.model import Model
from modelkeep.core.signing import canonical, is_signed
from modelkeep.core.slices import Place
from modelkeep.govern.agreement.limits import Limits
from modelkeep.govern.agreement.terms import (
    Material,
    Member,
    require_parties,
    require_parties_own,
    require_signatures,
    require_training,
)
from modelkeep.govern.documents import adapter, read_document, write_document
from modelkeep.govern.identity import Identity, PublicIdentity, require_name
from modelkeep.govern.wire.settings import Wire
from modelkeep.training.recipe import Recipe

if TYPE_CHECKING:
    from rich.table import Table

    from modelkeep.govern.consent.policy import Policy


def _write_card(card: Card, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
    """The card as agreements of every version have it, so that their fingerprints stay."""
    return leave_out_defaults(write(card))


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Everything that decides what the parties do together. Nothing starts unless all have signed the same one.

    The network of `card` is cut at `cuts`, and `holders` names who holds each of the `len(cuts) + 1` pieces. `data`
    are the inputs that the model is trained on and `labels` theirs, wherever each lies. To build the model imports
    `card.architecture`, and to train it the `objective`, if it is not "cross_entropy": who signs lets that code run.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    card: Annotated[Card, WrapSerializer(_write_card)]
    cuts: tuple[Place, ...]
    holders: tuple[str, ...]
    data: Material
    labels: Material
    recipe: Recipe
    parties: tuple[Member, ...]
    objective: str = "cross_entropy"
    seed: int = 0
    wire: Wire = field(default_factory=Wire)
    checkpoint_every: int = 50
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    signatures: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_name(self.name, "an agreement")
        if self.card.architecture is None or not SPEC.fullmatch(self.card.architecture):
            raise InputError(
                "An agreement needs a model that every party can build, one with architecture='package.module:factory'."
                f" Got {self.card.architecture!r}."
            )
        try:
            canonical(self.card.arguments)
        except (TypeError, ValueError) as error:
            raise InputError(f"The arguments of the architecture must be JSON values: {error}.") from error
        require_parties(self.parties)
        self._require_holders([party.name for party in self.parties])
        require_training(self.recipe, self.objective)
        if not 0 <= self.seed < 2**63:
            raise InputError(f"The seed of an agreement is a number from 0 to 2**63 - 1. Got {self.seed}.")
        if self.checkpoint_every < 1:
            raise InputError(f"checkpoint_every is a number of steps, at least 1. Got {self.checkpoint_every}.")
        require_parties_own("policy", self.policies, self.parties)
        require_parties_own("signature", self.signatures, self.parties)
        require_signatures(self.signatures)
        for party in self.policies:
            self.policy(party)

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """All fields; limits only where there are some: agreements of version 0.1 keep their fingerprints."""
        values: dict[str, Any] = write(self)
        if self.limits == Limits():
            del values["limits"]
        elif not self.limits.checked_passes:
            del values["limits"]["checked_passes"]
        return values

    def _require_holders(self, names: Sequence[str]) -> None:
        """Refuse pieces without a holder, and parties that hold nothing."""
        if not self.cuts or len(set(self.cuts)) != len(self.cuts):
            raise InputError(f"A model is cut at one place or more, each once. Got {_list_cuts(self.cuts)}.")
        for cut in self.cuts:
            if not cut.name or not cut.name.isprintable():
                raise InputError(
                    f"A cut is at a name of the network. Got {cut.name!r}.",
                    remedy=Remedy("model.slices() lists them.", "modelkeep explain --list-slices lists them."),
                )
        if len(self.holders) != len(self.cuts) + 1:
            raise InputError(
                f"{len(self.cuts)} cuts make {len(self.cuts) + 1} pieces, and each has a holder. "
                f"Got {len(self.holders)} holders: {', '.join(self.holders)}."
            )
        if len(set(self.holders)) == 1:
            raise InputError(f"All pieces are with '{self.holders[0]}', who then needs no other party's consent.")
        if self.data.rows != self.labels.rows:
            raise InputError(f"There are {self.data.rows} rows of data, but {self.labels.rows} labels.")
        holding = (*self.holders, self.data.holder, self.labels.holder)
        for holder in holding:
            if holder not in names:
                raise InputError(f"'{holder}' holds something, but is not a party. The parties: {', '.join(names)}.")
        for name in names:
            if name not in holding:
                raise InputError(f"The party '{name}' holds nothing: no piece, no data and no labels.")

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of all but the signatures: by it the parties know that they mean the same agreement."""
        values = adapter(Agreement).dump_python(self, mode="json")
        del values["signatures"]
        return sha256(canonical(values)).hexdigest()

    def member(self, name: str) -> Member:
        """The party called `name`."""
        for party in self.parties:
            if party.name == name:
                return party
        known = ", ".join(party.name for party in self.parties)
        raise GovernError(f"'{name}' is not a party to the agreement '{self.name}'. The parties: {known}.")

    def policy(self, name: str) -> Policy:
        """What the party called `name` consents to, as all have agreed; where nothing was said, to everything."""
        from modelkeep.govern.consent.policy import read_policy

        try:
            return read_policy(self.policies.get(name, {}))
        except GovernError as error:
            raise InputError(f"The policy of '{name}' cannot be agreed on. {error}") from error

    def require_member(self, identity: Identity | PublicIdentity) -> Member:
        """The party that this identity is; another key under the same name is refused."""
        member = self.member(identity.name)
        if member.public_key != identity.public_key:
            raise GovernError(
                f"The agreement '{self.name}' names another key for '{identity.name}' ({member.public_key[:16]}…) than "
                f"this one ({identity.public_key[:16]}…). Was it drafted with an old {identity.name}.party.json?"
            )
        return member

    def sign(self, identity: Identity) -> Agreement:
        """The agreement with the party's signature under it."""
        self.require_member(identity)
        signature = identity.signer.sign(self._signed_content(identity.name))
        return replace(self, signatures={**self.signatures, identity.name: signature})

    def check_signed(self) -> None:
        """Refuse an agreement that not all parties have signed as it stands."""
        missing = [party.name for party in self.parties if party.name not in self.signatures]
        if missing:
            raise GovernError(f"The agreement '{self.name}' is not signed by: {', '.join(missing)}.")
        for party in self.parties:
            if not self._is_signed_by(party):
                raise GovernError(
                    f"The signature of '{party.name}' is not under this agreement: '{self.name}' was altered after it "
                    "was signed, or the signature is forged. Ask for the agreement again, or sign it anew."
                )

    def merge_signatures(self, other: Agreement) -> Agreement:
        """This agreement with the signatures that only the other one has; one that is not under this one is refused."""
        new = {name: text for name, text in other.signatures.items() if name not in self.signatures}
        merged = replace(self, signatures={**self.signatures, **new})
        for name in new:
            if not merged._is_signed_by(merged.member(name)):
                raise GovernError(f"The signature of '{name}' that came is not under this agreement.")
        return merged

    def _is_signed_by(self, party: Member) -> bool:
        signature = self.signatures.get(party.name, "")
        return is_signed(self._signed_content(party.name), signature, party.public_key)

    def _signed_content(self, party: str) -> bytes:
        return canonical({"agrees to": self.fingerprint, "party": party})

    @classmethod
    def read(cls, path: str | Path) -> Agreement:
        """Read an agreement, signed or not; `check_signed` tells."""
        return read_document(cls, Path(path), "an agreement")

    def write(self, path: str | Path) -> Path:
        """Write it as JSON, whole or not at all."""
        return write_document(self, Path(path))

    def build(self) -> Model:
        """The model as its factory makes it. Each party then puts its own piece of the weights in."""
        known = {each.name: getattr(self.card, each.name) for each in fields(Card) if each.name != "architecture"}
        assert self.card.architecture is not None
        return Model.load(self.card.architecture, **known)

    def summary(self) -> list[tuple[str, str]]:
        """What a person reads before signing: a label and a value per line."""
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.card.arguments.items())
        rows = [("model", f"{self.card.architecture}({arguments})"), ("cut after", _list_cuts(self.cuts))]
        for party in self.parties:
            held = [f"piece {i + 1}" for i, holder in enumerate(self.holders) if holder == party.name]
            held += ["the data"] * (self.data.holder == party.name) + ["the labels"] * (
                self.labels.holder == party.name
            )
            signed = "signed" if self._is_signed_by(party) else "not signed"
            if signed == "not signed" and party.name in self.signatures:
                signed = "SIGNATURE DOES NOT FIT"
            rows.append((party.name, f"{', '.join(held)} · at {party.address} · {signed}"))
        for name, policy in self.policies.items():
            rows.append((f"policy of {name}", json.dumps(policy)))
        length = f"{self.recipe.epochs} epoch(s)" if self.recipe.steps is None else f"{self.recipe.steps} step(s)"
        rows.append(("training", f"{length} of {self.data.rows:,} rows, {self.objective}, seed {self.seed}"))
        rows.append(("recipe", json.dumps(self.recipe.to_json())))
        rows.append(("wire", f"{self.wire.dtype}, compression: {self.wire.compression}"))
        if self.limits != Limits():
            rows.append(("limits", json.dumps(asdict(self.limits))))
        rows.append(("fingerprint", self.fingerprint))
        return rows

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(title=f"Agreement '{self.name}'", show_header=False)
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for row in self.summary():
            table.add_row(*map(Text, row))  # plain: what others wrote must not act as markup
        return table


def _list_cuts(cuts: Sequence[Place]) -> str:
    return ", ".join(map(str, cuts)) or "none"
