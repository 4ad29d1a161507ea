"""Terms: the parts of an agreement: a party with its address, who brings which material, what recipes can be split."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import ConfigDict

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.formats.factory import SPEC
from modelkeep.govern.identity import PublicIdentity, require_name
from modelkeep.training.recipe import Recipe

ADDRESS = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]):([1-9][0-9]{0,4})")
SHA256 = re.compile(r"[0-9a-f]{64}")
SIGNATURE = re.compile(r"[0-9a-f]{128}")


@dataclass(frozen=True)
class Member(PublicIdentity):
    """A party to an agreement: its public identity, and where it listens ("host:port")."""

    address: str = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        match = ADDRESS.fullmatch(self.address)
        if match is None or int(match[2]) > 65535:
            raise InputError(
                f"The address of '{self.name}' is 'host:port' with a port from 1 to 65535, such as "
                f"'192.0.2.7:7401' or '[2001:db8::7]:7401'. Got {self.address!r}."
            )


@dataclass(frozen=True)
class Material:
    """Inputs or labels: who holds them, their fingerprint, and how many rows there are.

    >>> import torch
    >>> Material.labels("bob", Data(torch.zeros(3, 2), torch.tensor([0, 1, 1]), ("no", "yes"))).rows
    3
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    holder: str
    fingerprint: str
    rows: int

    def __post_init__(self) -> None:
        require_name(self.holder)
        if not SHA256.fullmatch(self.fingerprint):
            raise InputError(f"A fingerprint is a SHA-256 in hexadecimal. Got {self.fingerprint!r}.")
        if self.rows < 1:
            raise InputError(f"The material of '{self.holder}' has one row or more. Got {self.rows}.")

    @classmethod
    def inputs(cls, holder: str, data: Data) -> Material:
        """The inputs `data.x`, which `holder` brings."""
        return cls(holder, fingerprint({"x": data.x}), len(data))

    @classmethod
    def labels(cls, holder: str, data: Data) -> Material:
        """The labels `data.y`, which `holder` brings."""
        return cls(holder, fingerprint({"y": data.y}), len(data))


def require_parties(parties: Sequence[Member]) -> None:
    """Refuse fewer than two parties, and two that cannot be told apart."""
    if len(parties) < 2:
        raise InputError(f"An agreement is between two parties or more. Got {len(parties)}.")
    for what in ("name", "public_key", "address"):
        seen: dict[str, Member] = {}
        for party in parties:
            value = getattr(party, what)
            if value in seen:
                raise InputError(f"The parties '{seen[value].name}' and '{party.name}' have the same {what}: {value}.")
            seen[value] = party


def require_training(recipe: Recipe, objective: str) -> None:
    """Refuse what cannot be trained in pieces."""
    if recipe.early_stop is not None:
        raise InputError("A recipe with early_stop cannot be agreed on: how long all consent to train is said before.")
    if recipe.sampling != "shuffle":
        raise InputError(f"The sampling of a recipe that is agreed on is 'shuffle'. Got {recipe.sampling!r}.")
    if recipe.replays != 1:
        raise InputError(f"A recipe that is agreed on gives each batch once (replays=1). Got {recipe.replays}.")
    if recipe.trainable:
        raise InputError(f"A recipe that is agreed on trains all parameters. Got trainable={recipe.trainable}.")
    if objective != "cross_entropy" and not SPEC.fullmatch(objective):
        raise InputError(f"The objective is 'cross_entropy' or 'package.module:name'. Got {objective!r}.")


def require_parties_own(what: str, by_party: Mapping[str, object], parties: Sequence[Member]) -> None:
    """Refuse a policy or a signature of a person who is not a party."""
    names = [party.name for party in parties]
    for name in by_party:
        if name not in names:
            raise InputError(f"There is a {what} of '{name}', who is not a party. The parties: {', '.join(names)}.")


def require_signatures(signatures: Mapping[str, str]) -> None:
    """Refuse what is not written as a signature is: one signature has one spelling."""
    for name, signature in signatures.items():
        if not SIGNATURE.fullmatch(signature):
            raise InputError(f"The signature of '{name}' is not 128 hexadecimal digits. Got {signature!r}.")
