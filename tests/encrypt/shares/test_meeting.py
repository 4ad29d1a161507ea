"""Four roles over real TLS on loopback, each in its own thread: same words as in one process, and no fault hangs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from modelkeep.core.errors import InputError, PartyUnavailable, WireError
from modelkeep.encrypt.shares.keys import Keys
from modelkeep.encrypt.shares.local import Local
from modelkeep.encrypt.shares.meeting import Meeting, join_as_dealer, join_as_party
from modelkeep.encrypt.shares.network import Layer
from modelkeep.encrypt.shares.programs import Inference, InferencePlan, Secrets, Training, TrainingPlan
from modelkeep.encrypt.shares.ring import ShareRing
from modelkeep.encrypt.shares.roles import Outcome, run_dealer, run_party
from modelkeep.encrypt.shares.wire_channel import WireChannel, receive_exactly
from modelkeep.govern.identity import Identity
from modelkeep.govern.wire.message import Message
from modelkeep.govern.wire.settings import Wire

LAYERS = (Layer(4, 3, "relu"), Layer(3, 2, "none"))
WEIGHTS = [(torch.randn(4, 3), torch.randn(3)), (torch.randn(3, 2), torch.randn(2))]
X, Y = torch.randn(5, 4), torch.randn(5, 2)
PLAN = InferencePlan(LAYERS, (3, 2))
NAMES = ("owner", "clinic", "third")


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    folder = tmp_path_factory.mktemp("identities")
    return {name: Identity.at(folder / name, name) for name in (*NAMES, "dealer", "stranger")}


class Table:
    """The four roles of a meeting on this machine; a test puts its own role in the place of one."""

    def __init__(self, identities: Mapping[str, Identity], meeting: Meeting) -> None:
        self.identities, self.meeting = identities, meeting
        self.listeners = {name: meeting.open_endpoint(identities[name]).listen("127.0.0.1:0") for name in NAMES}
        self.addresses = {name: listener.address for name, listener in self.listeners.items()}
        self.pool = ThreadPoolExecutor(4)

    def start(self, name: str, **changes: Any) -> Future[Outcome]:
        meeting = replace(self.meeting, **changes)
        if name == "dealer":
            return self.pool.submit(run_dealer, meeting, self.identities[name], self.addresses, seed=1)
        secrets = {"owner": Secrets(WEIGHTS), "clinic": Secrets(None, X, Y), "third": Secrets()}[name]
        party = (meeting, self.identities[name], self.listeners[name], self.addresses, secrets)
        return self.pool.submit(run_party, *party, seed=1)

    def close(self) -> None:
        self.pool.shutdown()
        for listener in self.listeners.values():
            listener.close()


@pytest.fixture
def table(identities: dict[str, Identity]) -> Iterator[Table]:
    public_keys = {name: identities[name].public_key for name in (*NAMES, "dealer")}
    made = Table(identities, Meeting("test", NAMES, "dealer", public_keys, PLAN))
    yield made
    made.close()


def in_one_process(program: Inference | Training) -> list[Tensor | None]:
    here = Local(ShareRing(), Keys.from_seed(1))
    return program.run(here.run)


def test_inference_gives_the_same_bits_and_only_to_the_owner_of_the_data(table: Table) -> None:
    running = {name: table.start(name) for name in (*NAMES, "dealer")}
    outcomes = {name: each.result(60) for name, each in running.items()}
    here = Local(ShareRing(), Keys.from_seed(1))
    expected = Inference(PLAN, Secrets(WEIGHTS, X)).run(here.run)
    for ours, theirs in zip(outcomes["clinic"].found, expected, strict=True):
        assert theirs is not None
        assert torch.equal(ours, theirs)
    assert [len(outcomes[name].found) for name in ("owner", "third", "dealer")] == [0, 0, 0]
    assert outcomes["clinic"].traffic.opened == here.traffic.opened
    assert outcomes["third"].traffic == here.traffic
    assert outcomes["dealer"].traffic.dealt == here.traffic.dealt
    assert outcomes["third"].wire_sent > here.traffic.opened / 3


def test_training_gives_the_same_bits(table: Table) -> None:
    plan = TrainingPlan(LAYERS, batch_size=2, steps=7, halvings=5)  # more steps than the dealer may be ahead
    running = {name: table.start(name, plan=plan) for name in (*NAMES, "dealer")}
    outcomes = {name: each.result(60) for name, each in running.items()}
    expected = in_one_process(Training(plan, Secrets(WEIGHTS, X, Y)))
    assert len(outcomes["owner"].found) == 4
    for ours, theirs in zip(outcomes["owner"].found, expected, strict=True):
        assert theirs is not None
        assert torch.equal(ours, theirs)
    assert outcomes["clinic"].found == []


def test_roles_that_do_not_agree_compute_nothing(table: Table) -> None:
    running = [
        table.start("owner", ring=ShareRing(64, 10)),
        *(table.start(name) for name in ("clinic", "third", "dealer")),
    ]
    for each in running:
        with pytest.raises(PartyUnavailable):
            each.result(60)
    assert any("another session" in str(each.exception()) for each in running)


Fault = Callable[[WireChannel], object]


def _words(channel: WireChannel, values: Mapping[str, Any], tensor: Tensor) -> None:
    message = Message("words", {"session": channel._session, "round": 0, **values}, (tensor,))
    for line in channel._parties.values():
        with suppress(PartyUnavailable):  # who refuses it closes the line while it still comes
            line.send(message)


FAULTS: dict[str, tuple[Fault, str]] = {
    "dies": (lambda channel: channel.close(), "ended|closed|gone|broke"),
    "too many words": (lambda c: _words(c, {}, torch.zeros(100_000, dtype=torch.int64)), "800,000 bytes"),
    "too few words": (lambda c: _words(c, {}, torch.zeros(3, dtype=torch.int64)), "3 words where round 0"),
    "not a number": (lambda c: _words(c, {}, torch.full((18,), float("nan"))), "one row of int64 words"),
    "matrix": (lambda c: _words(c, {}, torch.zeros(2, 2, dtype=torch.int64)), "one row of int64 words"),
    "another round": (lambda c: _words(c, {"round": 1}, torch.zeros(18, dtype=torch.int64)), "round 1"),
    "another session": (lambda c: _words(c, {"session": "x"}, torch.zeros(18, dtype=torch.int64)), "another session"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_party_ends_the_computation_for_all(table: Table, fault: str) -> None:
    """The third party misbehaves in the first round: the others say so, and nothing is revealed."""
    act, message = FAULTS[fault]
    running = [table.start(name) for name in ("owner", "clinic", "dealer")]
    joined = join_as_party(table.meeting, table.identities["third"], table.listeners["third"], table.addresses, seed=1)
    with closing(joined[0]) as channel:
        act(channel)
        errors = [str(each.exception(60)) for each in running[:2]]
        assert all(isinstance(each.exception(60), PartyUnavailable) for each in running[:2])
    assert isinstance(running[2].exception(60), PartyUnavailable)
    assert any(word in " ".join(errors) for word in message.split("|")), errors


def test_a_silent_party_is_given_up_at_the_deadline(identities: dict[str, Identity], table: Table) -> None:
    meeting = replace(table.meeting, wire=Wire(deadline=0.2))
    with closing(meeting.open_endpoint(identities["owner"]).listen("127.0.0.1:0")) as listener:
        silent = meeting.open_endpoint(identities["third"]).connect("owner", listener.address, 60)
        late = pytest.raises(PartyUnavailable, match="No message from 'third'")
        with closing(silent), closing(listener.accept(60)) as line, late:
            receive_exactly(line, "words", {"session": meeting.digest})


def test_a_dealer_with_another_key_is_not_let_in(table: Table, identities: dict[str, Identity]) -> None:
    public_keys = {**table.meeting.public_keys, "stranger": identities["stranger"].public_key}
    del public_keys["dealer"]
    changed = replace(table.meeting, dealer="stranger", public_keys=public_keys)
    with pytest.raises(PartyUnavailable):
        join_as_dealer(changed, identities["stranger"], table.addresses)


def test_what_no_meeting_can_be(table: Table, identities: dict[str, Identity]) -> None:
    with pytest.raises(InputError, match="another one that deals"):
        replace(table.meeting, dealer="owner")
    same = dict.fromkeys((*NAMES, "dealer"), identities["owner"].public_key)
    with pytest.raises(InputError, match="same key"):
        replace(table.meeting, public_keys=same)
    with pytest.raises(InputError, match="'owner' does not deal"):
        join_as_dealer(table.meeting, identities["owner"], table.addresses)
    assert replace(table.meeting, session="other").digest != table.meeting.digest
    assert issubclass(WireError, PartyUnavailable)
