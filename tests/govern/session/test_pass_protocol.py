"""The leader's steps of one pass, with parties that only note what they are told."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from govern.asking import a_pass
from modelkeep.core.errors import ConsentPending, ConsentRefused, GovernError, PartyUnavailable
from modelkeep.govern.ledger.entry import Event
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.passes import Consent, Pass
from modelkeep.govern.session.pass_participant import PassParticipant
from modelkeep.govern.session.pass_protocol import PassLeader
from modelkeep.govern.wire.message import Message


def statement(party: str, kind: str) -> Receipt:
    return Receipt(party, Event(0, 0.0, kind, "", {"metrics": {"loss": 1.0, "correct": 3.0}}, "", ""))


@dataclass
class Seat:
    """Consents, unless `answers` has an error for its next question; everything is noted in `steps`."""

    name: str
    steps: list[str]
    answers: list[GovernError] = field(default_factory=list)

    def ask(self, of: Pass) -> Future[Consent]:
        self.steps.append(f"ask {self.name} for {of.number}")
        answer: Future[Consent] = Future()
        if self.answers:
            answer.set_exception(self.answers.pop(0))
        else:
            answer.set_result(Consent(self.name, "", ""))
        return answer

    def begin(self, of: Pass, consents: Sequence[Consent]) -> Future[Receipt]:
        assert [consent.party for consent in consents] == ["alice", "bob"]
        self.steps.append(f"begin {self.name}")
        answer: Future[Receipt] = Future()
        if self.answers:
            answer.set_exception(self.answers.pop(0))
        else:
            answer.set_result(statement(self.name, "intent"))
        return answer

    def clear(self, receipts: Sequence[Receipt]) -> None:
        assert [(receipt.party, receipt.event.kind) for receipt in receipts] == [("bob", "intent"), ("alice", "intent")]
        self.steps.append(f"clear {self.name}")

    def commit(self, number: int, receipts: Sequence[Receipt]) -> None:
        assert [receipt.party for receipt in receipts] == ["bob", "alice"]
        if self.answers:
            raise self.answers.pop(0)
        self.steps.append(f"commit {self.name}")


@dataclass
class Own(Seat):
    """Alice, to whom one message of Bob's comes in each pass."""

    message: Message = field(default_factory=lambda: Message("prepared", {}))
    session: str = "s"
    unfinished: None = None

    def __post_init__(self) -> None:
        self.agreement = SimpleNamespace(wire=SimpleNamespace(deadline=5.0))
        self.ledger = SimpleNamespace(committed=0)
        self.state = SimpleNamespace(
            pieces=SimpleNamespace(step=0, total=2), keep_when_due=lambda: self.steps.append("keep")
        )
        self.record = SimpleNamespace(require_prepared=lambda receipt: None, check_early=lambda of, answer: None)
        self.events = SimpleNamespace(note_refusal=lambda text, of=None: self.steps.append(text))
        arrivals = [(SimpleNamespace(peer="bob"), self.message)]
        self.links = SimpleNamespace(receive=lambda timeout: arrivals.pop(0) if arrivals else None)

    def wait_until_prepared(self) -> Receipt:
        self.steps.append("prepared")
        return statement("alice", "prepared")


def leader_of(own: Own, bob: Seat, faults: list[Any]) -> PassLeader:
    return PassLeader(cast(PassParticipant, own), [bob], 5.0, own.steps.append, faults.append)


def make(number: int, step: int) -> Pass:
    return a_pass(number)


def prepared(number: int = 0) -> Message:
    told = {"session": "s", "number": number, "receipt": asdict(statement("bob", "prepared"))}
    return Message("prepared", told)


def test_the_steps_come_in_their_order_and_the_next_pass_is_asked_for_meanwhile() -> None:
    steps: list[str] = []
    leader = leader_of(Own("alice", steps, message=prepared()), Seat("bob", steps), [])
    assert leader.run("train", make) == {"loss": 1.0, "correct": 3.0}
    assert steps == [
        "ask bob for 0",
        "ask alice for 0",
        "begin bob",
        "begin alice",
        "clear bob",
        "clear alice",
        "ask bob for 1",
        "ask alice for 1",
        "prepared",
        "commit alice",
        "commit bob",
        "keep",
    ]


def test_nothing_begins_without_every_consent() -> None:
    steps: list[str] = []
    refusing = Seat("bob", steps, [ConsentRefused("No.")])
    with pytest.raises(ConsentRefused, match="No"):
        leader_of(Own("alice", steps), refusing, []).run("evaluate", make)
    assert steps == ["ask bob for 0", "ask alice for 0", "'bob' refuses: No."]


def test_nothing_is_cleared_without_every_intent() -> None:
    steps: list[str] = []
    bob = Seat("bob", steps)
    own = Own("alice", steps)
    begin = own.begin

    def beginning(of: Pass, consents: Sequence[Consent]) -> Future[Receipt]:
        own.answers.append(ConsentRefused("Withdrawn meanwhile."))
        return begin(of, consents)

    own.begin = beginning  # type: ignore[method-assign]
    with pytest.raises(ConsentRefused, match="Withdrawn meanwhile"):
        leader_of(own, bob, []).run("evaluate", make)
    assert steps[-2:] == ["begin bob", "begin alice"]


def test_a_party_that_has_not_decided_is_asked_again() -> None:
    steps: list[str] = []
    deciding = Seat("bob", steps, [ConsentPending("Later.", 0.01)])
    leader_of(Own("alice", steps, message=prepared()), deciding, []).run("infer", make)
    assert steps[:5] == ["ask bob for 0", "ask alice for 0", "Later.", "ask bob for 0", "ask alice for 0"]


def test_a_pass_of_another_number_does_not_count_as_prepared() -> None:
    steps: list[str] = []
    leader = leader_of(Own("alice", steps, message=prepared(7)), Seat("bob", steps), [])
    with pytest.raises(PartyUnavailable, match="No message came in pass 0"):
        leader.run("evaluate", make)
    assert "'bob' says 'prepared' in pass 0 (train, asked by alice), which is not its turn." in steps
    assert not any(step.startswith("commit") for step in steps)


def test_a_fault_after_the_commit_does_not_undo_it() -> None:
    steps: list[str] = []
    faults: list[Any] = []
    bob = Seat("bob", steps)
    own = Own("alice", steps, message=prepared())
    commit = own.commit

    def committing(number: int, receipts: Sequence[Receipt]) -> None:
        commit(number, receipts)
        bob.answers.append(PartyUnavailable("gone"))

    own.commit = committing  # type: ignore[method-assign]
    assert leader_of(own, bob, faults).run("infer", make) == {"loss": 1.0, "correct": 3.0}
    assert "commit alice" in steps
    assert "commit bob" not in steps
    assert [str(fault) for fault in faults] == ["gone"]
