"""Ledgers as a run of three parties leaves them, made without a run, for the tests of ledgers and audits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch

from modelkeep import Data
from modelkeep.core.card import Card
from modelkeep.core.signing import Signer
from modelkeep.core.slices import Place
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.agreement.terms import Material, Member
from modelkeep.govern.identity import Identity
from modelkeep.govern.ledger import Crossing, Ledger
from modelkeep.govern.passes import Consent, Pass, Purpose
from modelkeep.training.recipe import Recipe

PARTIES = ("alice", "bob", "carol")


def make_identities(folder: Path) -> dict[str, Identity]:
    """The identities of the three parties."""
    return {name: Identity.at(folder / name, name) for name in PARTIES}


def make_agreement(identities: Mapping[str, Identity], name: str = "three") -> Agreement:
    """An agreement of three parties, each with a piece of a network; all have signed it."""
    data = Data(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]), ("no", "yes"))
    agreement = Agreement(
        name=name,
        card=Card((2,), ("no", "yes"), architecture="somewhere:network"),
        cuts=(Place("0"), Place("1")),
        holders=PARTIES,
        data=Material.inputs("alice", data),
        labels=Material.labels("carol", data),
        recipe=Recipe(epochs=1),
        parties=tuple(
            Member(one.name, one.public_key, one.public.proof, address=f"127.0.0.1:{7400 + i}")
            for i, one in enumerate(identities.values())
        ),
    )
    for identity in identities.values():
        agreement = agreement.sign(identity)
    return agreement


def make_pass(agreement: str, number: int, purpose: Purpose = "train", rows: int = 4) -> Pass:
    """One pass of that number."""
    return Pass(
        agreement=agreement,
        number=number,
        purpose=purpose,
        asker="alice",
        source="alice",
        sink="carol",
        step=number,
        data="d" * 64,
        labels="e" * 64,
        rows=rows,
    )


def crossings(number: int, party: str) -> tuple[list[Crossing], list[Crossing]]:
    """What a party sends and receives in a pass along alice, bob, carol and back."""
    links = [("alice", "bob", "activations", 0), ("bob", "carol", "activations", 1)]
    links += [("carol", "bob", "gradients", 1), ("bob", "alice", "gradients", 0)]
    sent, received = [], []
    for sender, receiver, what, at in links:
        digest = sha256(f"{number} {what} {at}".encode()).hexdigest()
        if sender == party:
            sent.append(Crossing(receiver, what, at, 0, digest, 64))  # type: ignore[arg-type]
        if receiver == party:
            received.append(Crossing(sender, what, at, 0, digest, 64))  # type: ignore[arg-type]
    return sent, received


@dataclass
class Run:
    """Three open ledgers and the keys that sign them."""

    agreement: str
    signers: dict[str, Signer]
    ledgers: dict[str, Ledger]

    @classmethod
    def at(cls, folder: Path, agreement: str, signers: Mapping[str, Signer]) -> Run:
        """Open the ledgers in the folder, or begin them."""
        ledgers = {name: Ledger(folder / f"{name}.sqlite3", name, signer) for name, signer in signers.items()}
        return cls(agreement, dict(signers), ledgers)

    def consents(self, of: Pass) -> list[Consent]:
        """The consents of all parties, as they give them when the pass before may still be under way."""
        heads = {name: ledger.head(of.number - 2) for name, ledger in self.ledgers.items()}
        return [Consent.give(of, name, heads[name], self.signers[name]) for name in reversed(PARTIES)]

    def prepare(self, of: Pass) -> None:
        """Let all parties log the pass."""
        consents = self.consents(of)
        for name, ledger in self.ledgers.items():
            ledger.prepare(of, consents, *crossings(of.number, name))

    def go_on(self, passes: int, purpose: Purpose = "train") -> None:
        """Let all parties log and commit so many more passes."""
        for number in range(self.ledgers["alice"].length, self.ledgers["alice"].length + passes):
            self.prepare(make_pass(self.agreement, number, purpose))
            for ledger in self.ledgers.values():
                ledger.commit(number)

    def close(self) -> None:
        """Close the ledgers."""
        for ledger in self.ledgers.values():
            ledger.close()
