"""Every short history of malicious parties: no promise is broken, and known holes are found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

import pytest

from govern.session.explored_world import Move
from govern.session.explorer import CASTS, explore, make_starts
from modelkeep.govern.ledger.attempts import Attempt
from modelkeep.govern.ledger.entry import Crossing
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.passes import Consent, Pass, name_attempt
from modelkeep.govern.session.pass_record import PassRecord
from modelkeep.govern.session.session_protocol import SessionParticipant

STARTS = make_starts(("bob", "carol"))


@pytest.mark.parametrize("cast", CASTS)
def test_no_short_history_breaks_a_promise(cast: str) -> None:
    for start in make_starts(CASTS[cast][1]).values():
        told = explore(1 if len(CASTS[cast][1]) > 1 else 2, start=start, cast=cast)
        assert told.broken == []
        assert told.steps > 10
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

    def prepare(
        self,
        sent: Sequence[Crossing],
        received: Sequence[Crossing],
        metrics: Mapping[str, float],
        told: Mapping[str, Any] | None = None,
    ) -> Receipt:
        attempt = self._require_attempt("be prepared")
        entry = self._ledger.prepare(attempt.of, self.consents, sent, received, metrics)
        self.prepared = Receipt(self._name, self._ledger.attempts.prepare(attempt, entry, {}))
        return self.prepared


class Trusting(PassRecord):
    """Commits what its leader says was prepared."""

    def commit(self, number: int, receipts: Sequence[Receipt]) -> None:
        if self.prepared is not None and self.attempt is not None:
            self._ledger.commit(number)
            self._ledger.attempts.settle(self.attempt.name, self.prepared.event, "committed", "")


class TakingTurns(PassRecord):
    """As it was: a prepared pass that is given up is forgotten, with what came in it, when another takes its place."""

    def give_up(self, why: str, received: Sequence[Crossing]) -> None:
        if self.prepared is not None and self.attempt is not None:
            self._ledger._file.execute("UPDATE attempts SET received = NULL WHERE name = ?", self.attempt.name)
            self._forget()
        else:
            super().give_up(why, received)


def other_pass(start: Sequence[Move], i: str, k: str) -> list[Move]:
    """Go on with pass `i`, as attempt `k`, until it is cleared at both, after the one under way was given up."""
    both = ("bob", "carol")
    moves: list[Move] = [("abort", name) for name in both] + [("ask", name, i) for name in both]
    last = "0" if k == "1" else "1"
    moves += [("begin", name, i, last, last) for name in both]
    return [*start, *moves, *(("clear", name, k) for name in both)]


SECOND = [*other_pass(STARTS["prepared"], "1", "1"), ("send", "bob", "0"), ("finish", "bob"), ("finish", "carol")]
HOLES: dict[str, tuple[type[PassRecord], list[Move], int, str]] = {
    "crosses without intents": (Eager, STARTS["begun"][:-1], 1, "that carol has not begun"),
    "passes that break off are not counted": (
        Forgetful,
        other_pass([*STARTS["cleared"], ("send", "bob", "0")], "1", "1"),
        1,
        "2 different inputs were answered",
    ),
    "prepares after a withdrawal": (Late, STARTS["cleared"], 1, "after it had withdrawn"),
    "commits what was not prepared by all": (Trusting, STARTS["prepared"][:-1], 1, "that carol has not prepared"),
    "two prepared passes take turns": (
        TakingTurns,
        other_pass(SECOND, "0", "2"),
        2,
        "3 different inputs were answered",
    ),
}


@pytest.mark.parametrize("hole", HOLES)
def test_a_hole_is_found(hole: str) -> None:
    kind, start, most, words = HOLES[hole]
    told = explore(2, kind, start, most=most)
    assert len(told.broken) == 1
    assert words in told.broken[0][0]
    assert explore(1, start=start, most=most).broken == []  # the same history, and software without the hole


def test_a_leader_who_tells_two_parties_different_things_would_part_them_for_ever() -> None:
    """As it was: what a party had given up stayed given up, though another one had committed it."""
    start = [*STARTS["one has committed, one not"], ("open", "bob"), ("open", "carol")]
    with patch.object(SessionParticipant, "_catch_up", lambda self, furthest: None):
        assert "can settle no more" in explore(1, start=start).broken[0][0]
    assert explore(1, start=start).broken == []
