"""Links: questions and their answers, lost connections, and others who do not keep to the rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from govern.meeting import meeting
from modelkeep.core.errors import ConsentPending, GovernError, PartyUnavailable, WireError
from modelkeep.govern.identity import Identity
from modelkeep.govern.session.links import Links
from modelkeep.govern.session.messages import answer_question, refuse_question
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.endpoint import Endpoint
from modelkeep.govern.wire.message import Message
from processes import PATIENCE, wait_until


@dataclass
class Pair:
    """Alice, who asks, and Bob, who answers at once what begins with "quick"."""

    alice: Links
    bob: Links
    endpoint: Endpoint  # Alice's too, for what she would not send
    address: str
    told: list[str] = field(default_factory=list)

    def come(self, links: Links) -> tuple[Connection, Message | GovernError]:
        came = links.receive(PATIENCE)
        assert came is not None
        return came


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    split = meeting(tmp_path, {}, "govern.networks:digit_network", "pictures", ["2"], ["alice", "bob"], "bob")
    agreement, told = split.agreement, []  # type: tuple[Any, list[str]]
    identities = {name: Identity.at(folder.path, name) for name, folder in split.folders.items()}

    def at_once(connection: Connection, message: Message) -> bool:
        if message.kind.startswith("quick"):
            answer_question(connection, message, {"twice": 2 * message.header["value"]})
            return True
        return False

    members = {party.name: party.public_key for party in agreement.parties}
    alice, bob = (Links(agreement, identities[name], members, told.append) for name in ("alice", "bob"))
    for links in (alice, bob):
        links.listen(at_once, lambda peer, kind, header, size: True)
    endpoint = Endpoint(identities["alice"], members, wire=agreement.wire, on_refused=told.append)
    yield Pair(alice, bob, endpoint, agreement.member("bob").address, told)
    alice.close()
    bob.close()


def test_questions_are_answered_in_any_order(pair: Pair) -> None:
    pair.alice.dial("bob", PATIENCE)
    slow = pair.alice.ask("bob", "slow", {})
    quick = [pair.alice.ask("bob", "quick", {"value": value}) for value in range(5)]
    assert [future.result(PATIENCE).header["twice"] for future in quick] == [0, 2, 4, 6, 8]
    connection, message = pair.come(pair.bob)
    assert isinstance(message, Message)
    assert not slow.done()
    refuse_question(connection, message, ConsentPending("Not yet.", 7.0))
    with pytest.raises(ConsentPending, match=r"Not yet\.") as pending:
        slow.result(PATIENCE)
    assert pending.value.seconds == 7.0


def test_who_waits_for_a_message_does_what_was_put_off(pair: Pair) -> None:
    waited: list[bool] = []
    pair.bob.on_idle = lambda: waited.append(True)
    assert pair.bob.receive(0.01) is None
    assert waited == [True]
    pair.alice.dial("bob", PATIENCE)
    for value in range(2):
        pair.alice.send("bob", Message("slow", {"value": value}))
    pair.alice.ask("bob", "quick", {"value": 1}).result(PATIENCE)  # so both have come
    for _ in range(2):
        pair.come(pair.bob)
    assert waited == [True]


def test_answers_that_were_not_asked_for_are_refused(pair: Pair) -> None:
    connection = pair.endpoint.connect("bob", pair.address, PATIENCE)
    connection.send(Message("answer", {"question": 3}))
    wait_until(lambda: any("answers what it was not asked" in text for text in pair.told))
    connection.close()


@pytest.mark.parametrize("kind", ["answer", "quick", "slow"])
def test_nonsense_for_a_question_ends_the_connection(kind: str, pair: Pair) -> None:
    nonsense: list[Any] = [None, [1], "1", -1, 1.5]
    for question in nonsense:
        connection = pair.endpoint.connect("bob", pair.address, PATIENCE)
        connection.send(Message(kind, {"question": question}))
        with pytest.raises(PartyUnavailable):
            connection.receive(PATIENCE)
        connection.close()
        assert isinstance(pair.come(pair.bob)[1], WireError)


def test_error_while_answering_ends_the_connection_and_no_more(pair: Pair) -> None:
    connection = pair.endpoint.connect("bob", pair.address, PATIENCE)
    connection.send(Message("quick", {"question": 1}))  # without a value: a KeyError on Bob's thread
    with pytest.raises(PartyUnavailable):
        connection.receive(PATIENCE)
    connection.close()
    assert "KeyError" in str(pair.come(pair.bob)[1])
    pair.alice.dial("bob", PATIENCE)
    assert pair.alice.ask("bob", "quick", {"value": 4}).result(PATIENCE).header["twice"] == 8


def test_lost_connection_fails_what_was_asked_and_is_told(pair: Pair) -> None:
    pair.alice.dial("bob", PATIENCE)
    asked = pair.alice.ask("bob", "slow", {})
    connection, _ = pair.come(pair.bob)
    connection.close()
    with pytest.raises(PartyUnavailable):
        asked.result(PATIENCE)
    assert isinstance(pair.come(pair.alice)[1], PartyUnavailable)
    assert pair.alice.connection_to("bob") is None
    with pytest.raises(PartyUnavailable, match="no connection to 'bob'"):
        pair.alice.send("bob", Message("slow"))
    with pytest.raises(PartyUnavailable, match="no connection to 'bob'"):
        pair.alice.ask("bob", "slow", {})


def test_one_party_cannot_hold_any_number_of_connections(pair: Pair) -> None:
    spoken = pair.alice.dial("bob", PATIENCE)
    spoken.send(Message("slow"))
    pair.bob.use(pair.come(pair.bob)[0])  # this one stays
    more = [pair.endpoint.connect("bob", pair.address, PATIENCE) for _ in range(20)]
    wait_until(lambda: len(pair.bob._all) <= 9)
    assert pair.alice.ask("bob", "quick", {"value": 3}).result(PATIENCE).header["twice"] == 6
    for connection in more:
        connection.close()
