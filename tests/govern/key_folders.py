"""Folders of three parties that have signed and logged some passes, for the tests of key changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from govern.ledger_runs import Run, make_agreement, make_identities
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.agreement.key_change import KeyChange
from modelkeep.govern.folder import Folder
from modelkeep.govern.identity import Identity
from modelkeep.govern.key_changes import ask_for_change, sign_change
from modelkeep.govern.ledger.audit import Audit, audit
from modelkeep.govern.ledger.ledger import Ledger


@dataclass
class Parties:
    """Alice, Bob and Carol, each in a folder of its own."""

    agreement: Agreement
    folders: dict[str, Folder]

    @classmethod
    def at(cls, root: Path, passes: int = 3) -> Parties:
        """They have logged so many passes."""
        agreement = make_agreement(make_identities(root))
        found = cls(agreement, {name: Folder(root / name) for name in ("alice", "bob", "carol")})
        for folder in found.folders.values():
            agreement.write(folder.agreement)
        found.go_on(passes)
        return found

    def go_on(self, passes: int) -> None:
        """Let all log and commit so many more passes, each with the key that it has now."""
        signers = {name: folder.identity().signer for name, folder in self.folders.items()}
        ledgers = {name: Ledger(folder.ledger, name, signers[name]) for name, folder in self.folders.items()}
        run = Run(self.agreement.fingerprint, signers, ledgers)
        run.go_on(passes)
        run.close()

    def new_key(self, name: str) -> Identity:
        """A key that the party has made, and that does not speak yet."""
        return Identity.at(self.folders[name].next_identity, name)

    def rotation(self, name: str) -> KeyChange:
        """What the party asks for."""
        return ask_for_change(self.folders[name], "rotate", new=self.new_key(name).public, reason="it is old")

    def sign(self, change: KeyChange, *names: str) -> KeyChange:
        """Let these parties sign, one after the other."""
        for name in names:
            change = sign_change(self.folders[name], change)
        return change

    def audit(self) -> Audit:
        """An audit of all three ledgers."""
        return audit(self.agreement, {name: folder.ledger for name, folder in self.folders.items()})
