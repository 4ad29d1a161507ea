"""What a member can do to a session that it does not lead, and to the leader of one that it takes part in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from govern.intruder import Intruder, crossing, intruding
from govern.meeting import Meeting, meeting, same_bits
from govern.parties import Host
from modelkeep.core.errors import ConsentPending, GovernError, PartyUnavailable
from modelkeep.govern.identity import Identity
from modelkeep.govern.ledger.entry import Event
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.passes import Consent, Pass, Purpose, name_attempt, read_consent, read_pass
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
                for kind in ("close", "settle", "begin"):
                    assert "does not lead" in intruder.ask(kind).header["reason"]
                of = make(leader.party.ledger.committed, leader.party.pieces.step)
                intruder.say("clear", {"receipts": []})
                intruder.say("abort", {"reason": "because I say so"})
                intruder.activations(of, crossing(of.rows))  # which only Alice may send
                intruder.say("commit", {"number": of.number, "receipts": []})
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
    assert sum("'carol' sent activations of a pass that has not begun" in text for text in told) == 1


_STARTS = count(0, 1000)  # where the account of each false Bob begins


class FalseBob:
    """Answers the leader as each test says; without a word about a kind of message it answers as Bob would."""

    def __init__(self, split: Meeting, says: dict[str, Any]) -> None:
        self._split, self._says, self._numbers = split, says, count(next(_STARTS))
        self._about: dict[str, Any] = {}
        self._identity = Identity.at(split.folders["bob"].path, "bob")
        members = {party.name: party.public_key for party in split.agreement.parties}
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
        said = self._says.get(message.kind, {})
        values = {"session": message.header.get("session"), **said.get("values", {})}
        if message.kind == "open":
            standing = {"step": 0, "checkpoints": [0], "length": 0, "committed": 0}
            told = {"receipt": self._state("standing", {**standing, **values}), "proof": []}
        elif message.kind == "ask":
            nonce, session = token_hex(8), str(message.header["session"])
            of, signer = read_pass(message.header["pass"]), self._identity.signer
            given = Consent.give(of, "bob", "", signer, session=session, nonce=nonce, expires=2**40)
            told = {"consent": given.values()}
        elif message.kind == "begin":
            consents = [read_consent(each) for each in message.header["consents"]]
            of = read_pass(message.header["pass"])
            self._about = {"pass": of.digest, "number": of.number, "attempt": name_attempt(consents)}
            told = {"receipt": self._state("intent", {**self._about, **values})}
        elif message.kind == "clear":
            prepared = {**self._about, "entry": "", "metrics": {"loss": 1.0}, **values}
            told = {"number": 0, "receipt": self._state("prepared", prepared)}
        kind = "prepared" if message.kind == "clear" else "answer"
        if message.kind not in ("open", "settle", "ask", "begin", "clear"):
            return []
        return [Message(said.get("kind of message", kind), {**question, **told, **said.get("header", {})})]

    def _state(self, kind: str, values: dict[str, Any]) -> dict[str, Any]:
        """A statement with Bob's real key, in an account that goes on for ever."""
        number, signer = next(self._numbers), self._identity.signer
        event = Event.sign(number, 0.0, kind, "", values, previous="", party="bob", signer=signer)
        return asdict(Receipt("bob", event))


def told(**values: Any) -> dict[str, Any]:
    """What Bob states otherwise."""
    return {"values": values}


def sent(**header: Any) -> dict[str, Any]:
    """What Bob sends otherwise."""
    return {"header": header}


FORGED = {"party": "bob", "head": "", "signature": "00" * 64}
FALSE: dict[str, tuple[dict[str, Any], str]] = {
    "no standing": ({"open": told(checkpoints=None)}, "does not say where it stands"),
    "a strange standing": ({"open": told(step="x")}, "does not say where it stands"),
    "strange checkpoints": ({"open": told(checkpoints=[[0]])}, "does not say where it stands"),
    "other checkpoints": ({"open": told(checkpoints=[77], step=None)}, "no checkpoint that all parties have"),
    "a negative number": ({"open": told(committed=-1)}, "must say its 'committed'"),
    "a number in words": ({"open": told(length="x")}, "must say its 'length'"),
    "more passes than there were": ({"open": told(committed=10**9)}, "but 1000000000 are committed, says 'bob'"),
    "the standing of another session": ({"open": told(session="f" * 16)}, "Its statement is of another session"),
    "no statement": ({"open": sent(receipt=7)}, "no receipt"),
    "another's statement": ({"open": sent(receipt={})}, "no receipt"),
    "an answer to nothing": ({"open": sent(question={})}, "must say its 'question'"),
    "no consent": ({"ask": sent(consent=None)}, "no consent"),
    "a forged consent": ({"ask": sent(consent=FORGED)}, "not signed by 'bob'"),
    "another's consent": ({"ask": sent(consent={**FORGED, "party": "alice"})}, "only of alice, alice"),
    "never now": ({"ask": {"kind of message": "refusal", **sent(kind="pending", seconds=-5)}}, "no reason given"),
    "the intent for another pass": ({"begin": told(attempt="f" * 64)}, "Its statement is of another attempt"),
    "no intent": ({"begin": sent(receipt=None)}, "no receipt"),
    "no metrics": ({"clear": told(metrics=None)}, "does not tell the loss"),
    "metrics in words": ({"clear": told(metrics={"loss": "low"})}, "does not tell the loss"),
    "prepared for another pass": ({"clear": told(attempt="f" * 64)}, "Its statement is of another attempt"),
    "trouble without end": ({"clear": {"kind of message": "trouble", **sent(kind=[], reason=7)}}, "7"),
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
