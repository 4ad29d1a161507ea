"""Every short history of a malicious leader: no promise is broken, and known holes in a record are found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from govern.session.explorer import ASKED, BEGUN, CLEARED, PREPARED, STARTS, Move, explore
from modelkeep.govern.ledger.attempts import Attempt
from modelkeep.govern.ledger.entry import Crossing
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.passes import Consent, Pass, name_attempt
from modelkeep.govern.session.pass_record import PassRecord


@pytest.mark.parametrize("start", STARTS)
def test_no_short_history_breaks_a_promise(start: str) -> None:
    told = explore(2, start=STARTS[start])
    assert told.broken == []
    assert told.steps > 30
    assert told.refused > 5


class Eager(PassRecord):
    """Lets things cross without looking at the others' intents."""

    def clear(self, receipts: Sequence[Receipt]) -> None:
        self.cleared = self.attempt is not None


class Forgetful(PassRecord):
    """Does not write its intent down."""

    def begin(self, of: Pass, consents: Sequence[Consent]) -> Receipt:
        self._require_consents(of, consents)
        self.attempt, self.consents = Attempt(of, name_attempt(consents), self.session), tuple(consents)
        self.prepared, self.cleared = None, False
        self.intent = Receipt(self._name, self._ledger.event("intent", "", **self.attempt.values))
        return self.intent


class Late(PassRecord):
    """Does not look whether consent was withdrawn before it states that a pass is prepared."""

    def prepare(self, sent: Sequence[Crossing], received: Sequence[Crossing], metrics: Mapping[str, float]) -> Receipt:
        attempt = self._require_attempt("be prepared")
        entry = self._ledger.prepare(attempt.of, self.consents, sent, received, metrics)
        self.prepared = Receipt(self._name, self._ledger.attempts.prepare(attempt, entry))
        return self.prepared


class Trusting(PassRecord):
    """Commits what its leader says was prepared."""

    def commit(self, number: int, receipts: Sequence[Receipt]) -> None:
        if self.prepared is not None:
            self._ledger.commit(number)


SECOND: list[Move] = [*CLEARED, ("send", "bob"), ("abort", "bob"), ("abort", "carol"), ("ask", "bob", "1")]
HOLES: dict[str, tuple[type[PassRecord], list[Move], str]] = {
    "crosses without intents": (Eager, [*ASKED, BEGUN[2]], "that Carol has not begun"),
    "passes that break off are not counted": (
        Forgetful,
        [*SECOND, ("ask", "carol", "1"), ("begin", "bob", "1", "0", "0"), ("begin", "carol", "1", "0", "0")],
        "2 different inputs were answered",
    ),
    "prepares after a withdrawal": (Late, CLEARED, "after it had withdrawn"),
    "commits what was not prepared by all": (Trusting, PREPARED[:-1], "that Carol has not prepared"),
}


@pytest.mark.parametrize("hole", HOLES)
def test_a_hole_is_found(hole: str) -> None:
    kind, start, words = HOLES[hole]
    told = explore(3, kind, start)
    assert len(told.broken) == 1
    assert words in told.broken[0][0]
