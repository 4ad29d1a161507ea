"""Parties that have met and have not signed yet, and their exchanges in threads of the test's own process."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from govern.networks import digit_model
from govern.parties import digits, found
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.folder import Folder
from modelkeep.govern.identity import Identity
from modelkeep.govern.session.exchange import Exchange, know_parties
from processes import PATIENCE


def met(root: Path) -> tuple[Agreement, dict[str, Folder]]:
    """A draft that nobody has signed, and three folders, each with the public identities of the others."""
    data = digits()
    signed, folders = found(root, digit_model(data), data, cuts=["2"], holders=["alice", "bob"], labels="carol")
    for name, folder in folders.items():
        folder.agreement.unlink()
        others = [other.path / f"{each}.party.json" for each, other in folders.items() if each != name]
        know_parties(folder, others)
    return replace(signed, signatures={}), folders


def sign(folder: Folder, agreement: Agreement) -> None:
    """As a person does with `modelkeep govern sign`."""
    with folder.agreement_lock():
        if folder.agreement.exists():
            agreement = agreement.merge_signatures(Agreement.read(folder.agreement))
        agreement.sign(folder.identity()).write(folder.agreement)


class Exchanging:
    """One party's exchange, in a thread; `told` is what its person reads."""

    def __init__(self, folder: Folder, agreement: Agreement) -> None:
        self.folder, self.told, self.outcome = folder, list[str](), list[Agreement | None]()
        identity: Identity = folder.identity()
        self.exchange = Exchange(folder, identity, know_parties(folder, []), self.told.append)
        address = agreement.member(identity.name).address

        def run() -> None:
            self.outcome.append(self.exchange.run(address, PATIENCE))

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def has_heard(self, words: str) -> bool:
        return any(words in text for text in list(self.told))
