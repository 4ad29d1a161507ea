"""What a member can do to a session that it does not lead, and to the leader of one that it takes part in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from govern.intruder import Intruder, crossing, intruding
from govern.meeting import Meeting, meeting, same_bits
from govern.parties import Host
from modelkeep.core.errors import ConsentPending, GovernError, PartyUnavailable
from modelkeep.govern.identity import Identity
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.passes import Consent, Pass, Purpose, read_pass
from modelkeep.govern.session.leader import Leader
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.runs import train
from modelkeep.govern.wire.endpoint import Endpoint
from modelkeep.govern.wire.message import Message


def test_third_party_cannot_disturb_a_session_that_it_does_not_lead(tmp_path: Path, hosts: dict[str, Host]) -> None:
    holders = ["alice", "bob", "carol"]
    split = meeting(tmp_path, hosts, "govern.networks:digit_network", "pictures", ["2", "5"], holders, "alice")
    with split.up(), split.alice() as leader, intruding(split, "carol") as intruder, ExitStack() as stack:
        waiting: list[Intruder] = []
        run = leader.run

        def disturbed(purpose: Purpose, make: Callable[[int, int], Pass]) -> dict[str, float]:
            if leader.party.pieces.step == 2:
                intruder.session = leader.party.passes.session  # which all parties of the session know
                told = intruder.ask("open", {"agreement": split.agreement.fingerprint})
                assert "busy in a session that 'alice' leads" in told.header["reason"]
                for kind, header in (("close", {}), ("rewind", {"step": 0}), ("settle", {"committed": 0})):
                    assert "does not lead" in intruder.ask(kind, header).header["reason"]
                of = make(leader.party.ledger.committed, leader.party.pieces.step)
                intruder.say("begin", {"pass": asdict(of), "consents": []})
                intruder.say("abort", {"reason": "because I say so"})
                intruder.activations(of, crossing(of.rows))  # which only Alice may send
                intruder.say("commit", {"number": of.number})
                assert intruder.ask("ask", {"pass": asdict(of)}).kind == "refusal"
                waiting.append(stack.enter_context(intruding(split, "carol", "alice")))
                waiting[0].say("open", {"question": 5, "agreement": split.agreement.fingerprint})
                for _ in range(3):
                    with intruding(split, "carol", "alice") as stray:  # a connection that comes and goes
                        stray.say("prepared", {"number": of.number})
            return run(purpose, make)

        leader.run = disturbed  # type: ignore[method-assign]
        assert train(leader).recoveries == 0
        refused = waiting[0].hear()
        assert (refused.kind, refused.header["reason"]) == ("refusal", "'alice' leads a session itself.")
    assert same_bits(split.weights(), split.alone())
    told = [event.text for event in read_ledger(split.folders["bob"].ledger).events()]
    assert sum("'carol' says 'abort', but does not lead this session" in text for text in told) == 1
    assert sum("none are due from it" in text for text in told) == 1


class FalseBob:
    """Answers the leader as each test says; without a word about a kind of message it answers as Bob would."""

    def __init__(self, split: Meeting, says: dict[str, Any]) -> None:
        self._split, self._says = split, says
        self._identity = Identity.at(split.folders["bob"].path, "bob")
        members = {party.name: party.certificate for party in split.agreement.parties}
        endpoint = Endpoint(self._identity, members, wire=split.agreement.wire, on_refused=lambda text: None)
        self._listener = endpoint.listen(split.agreement.member("bob").address)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(GovernError):
            while True:
                connection = self._listener.accept()
                try:
                    while True:
                        for said in self._reply(connection.receive()):
                            connection.send(said)
                except GovernError:
                    connection.close()

    def _reply(self, message: Message) -> list[Message]:
        question: dict[str, Any] = {
            name: message.header[name] for name in ("question", "session") if name in message.header
        }
        told: dict[str, Any] = {}
        if message.kind == "open":
            told = {"standing": 0, "checkpoints": [0], "length": 0, "committed": 0}
        elif message.kind == "ask":
            given = Consent.give(read_pass(message.header["pass"]), "bob", "", self._identity.signer)
            told = {"consent": asdict(given)}
        elif message.kind == "begin":
            told = {"number": 0, "metrics": {"loss": 1.0}}
        said = self._says.get(message.kind, {})
        kind = "prepared" if message.kind == "begin" else "answer"
        if message.kind not in ("open", "settle", "rewind", "ask", "begin"):
            return []
        return [Message(said.get("kind of message", kind), {**question, **told, **said})]


FALSE: dict[str, tuple[dict[str, Any], str]] = {
    "no standing": ({"open": {"checkpoints": None}}, "does not say where it stands"),
    "a strange standing": ({"open": {"standing": "x"}}, "does not say where it stands"),
    "strange checkpoints": ({"open": {"checkpoints": [[0]]}}, "does not say where it stands"),
    "other checkpoints": ({"open": {"checkpoints": [77], "standing": None}}, "no checkpoint that all parties have"),
    "a negative number": ({"open": {"committed": -1}}, "must say its 'committed'"),
    "a number in words": ({"open": {"length": "x"}}, "must say its 'length'"),
    "more passes than there were": ({"open": {"committed": 10**9}}, "but 1000000000 are committed"),
    "an answer to nothing": ({"open": {"question": {}}}, "must say its 'question'"),
    "no consent": ({"ask": {"consent": None}}, "no consent"),
    "a forged consent": ({"ask": {"consent": asdict(Consent("bob", "", "00" * 64))}}, "not signed by 'bob'"),
    "another's consent": ({"ask": {"consent": asdict(Consent("alice", "", "00" * 64))}}, "only of alice, alice"),
    "never now": ({"ask": {"kind of message": "refusal", "kind": "pending", "seconds": -5}}, "no reason given"),
    "no metrics": ({"begin": {"metrics": None}}, "does not tell the loss"),
    "metrics in words": ({"begin": {"metrics": {"loss": "low"}}}, "does not tell the loss"),
    "trouble without end": ({"begin": {"kind of message": "trouble", "kind": [], "reason": 7}}, "7"),
}


@contextmanager
def false_bob(split: Meeting, says: dict[str, Any]) -> Iterator[None]:
    bob = FalseBob(split, says)
    try:
        yield
    finally:
        bob.close()


def test_leader_is_not_fooled_by_a_false_answer(tmp_path: Path) -> None:
    split = meeting(
        tmp_path, {}, "govern.networks:digit_network", "pictures", ["2"], ["alice", "bob"], "bob", checkpoint_every=3
    )
    for name, (says, words) in FALSE.items():
        with false_bob(split, says), Party(split.folders["alice"], data=[split.data]) as alice:
            with pytest.raises((GovernError, PartyUnavailable, ConsentPending)) as refused:
                train(Leader(alice, patience=0.0))
            assert words in str(refused.value), (name, refused.value)
            assert alice.ledger.committed == 0


def test_party_with_an_altered_agreement_does_not_start(tmp_path: Path) -> None:
    split = meeting(tmp_path, {}, "govern.networks:digit_network", "pictures", ["2"], ["alice", "bob"], "bob")
    path = split.folders["alice"].agreement
    path.write_text(path.read_text().replace('"learning_rate": 0.1', '"learning_rate": 0.2'))
    with pytest.raises(GovernError, match="was altered after it was signed"):
        Party(split.folders["alice"])
