"""A pass to ask for, and the place of one party, for the tests of consent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from modelkeep.core.signing import Signer
from modelkeep.govern.consent import ConsentDecision, ConsentState, Policy
from modelkeep.govern.ledger.attempts import Attempt
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.passes import Pass, Purpose

NOON = 1704110400.0  # Monday, 1 January 2024, 12:00 UTC


def a_pass(
    number: int = 0, purpose: Purpose = "train", asker: str = "alice", data: str = "d" * 64, labels: str = "e" * 64
) -> Pass:
    return Pass("a" * 64, number, purpose, asker, "alice", "alice", number, data, labels, 16)


@dataclass
class Party:
    """Bob, who consents, and his clock."""

    folder: Path
    now: float = NOON

    def __post_init__(self) -> None:
        self.signer = Signer.at(self.folder / "key.pem")
        self.ledger = Ledger(self.folder / "ledger.sqlite3", "bob", self.signer)
        self.state = ConsentState(self.folder / "consent.sqlite3")

    def by(self, *policies: Policy) -> ConsentDecision:
        return ConsentDecision(policies, self.state, "bob", self.ledger, clock=lambda: self.now)

    def log(self, of: Pass, *, commit: bool = True) -> None:
        attempt = self.begin(of)
        self.ledger.prepare(of, (), (), ())
        if commit:
            self.ledger.commit(of.number)
            self.ledger.attempts.end(attempt, "committed", "done")

    def begin(self, of: Pass) -> Attempt:
        attempt = Attempt(of, token_hex(8), "s")
        self.ledger.attempts.begin(attempt)
        return attempt

    def close(self) -> None:
        self.ledger.close()
        self.state.close()
