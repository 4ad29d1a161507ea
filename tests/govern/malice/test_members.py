"""A changed middle party and a changed label party, each with its real key: what they do is prevented, or found."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from govern.meeting import MOMENTUM, Meeting, meeting
from modelkeep.core.errors import ConsentRefused, GovernError, PartyUnavailable
from modelkeep.govern.agreement.limits import Limits
from modelkeep.govern.consent import ConsentState
from modelkeep.govern.identity import Identity
from modelkeep.govern.ledger.audit import Audit, audit
from modelkeep.govern.ledger.entry import Entry, Event
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.passes import Pass, read
from modelkeep.govern.piece.computation import Computation
from modelkeep.govern.session.leader import Leader
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.runs import _make_pass, evaluate, infer, train
from modelkeep.govern.session.service import serve
from modelkeep.govern.wire.message import Message
from modelkeep.govern.wire.settings import Wire


@pytest.fixture
def split(tmp_path: Path) -> Meeting:
    """Alice has the data, Bob the second piece, Carol the labels."""
    return meeting(
        tmp_path,
        {},
        "govern.networks:digit_network",
        "pictures",
        ["2"],
        ["alice", "bob"],
        "carol",
        recipe=MOMENTUM,
        wire=Wire(deadline=20.0),
        checkpoint_every=3,
        limits=Limits(magnitude=1e4),
    )


Change = Callable[[Party], None]


def _change_nothing(party: Party) -> None: ...


@contextmanager
def up(split: Meeting, **changes: Change) -> Iterator[Leader]:
    """All parties in threads of this process; what a party's software does otherwise is put into it first."""
    stop, threads, parties = threading.Event(), [], []
    try:
        for name in ("bob", "carol"):
            party = Party(split.folders[name], data=[split.data])
            parties.append(party)
            changes.get(name, _change_nothing)(party)
            threads.append(threading.Thread(target=serve, args=(party, stop)))
            threads[-1].start()
        with split.alice(patience=0.0) as leader:
            yield leader
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for party in parties:
            party.close()


def found(split: Meeting) -> Audit:
    return audit(split.agreement, {name: folder.ledger for name, folder in split.folders.items()})


def tell(change: Callable[[dict[str, float]], dict[str, float]]) -> Change:
    """Let a party log and state other metrics than it has measured."""

    def install(party: Party) -> None:
        prepare = party.passes.record.prepare

        def preparing(sent: Any, received: Any, metrics: Any, told: Any = None) -> Receipt:
            return prepare(sent, received, change(dict(metrics)), told)

        party.passes.record.prepare = preparing  # type: ignore[method-assign]

    return install


def send_instead(kind: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """Let a party send other tensors than it has computed."""

    def install(party: Party) -> None:
        send = party.links.send

        def sending(name: str, message: Message) -> None:
            if message.kind == kind:
                message = Message(
                    kind,
                    message.header,
                    tuple(change(tensor) if tensor.is_floating_point() else tensor for tensor in message.tensors),
                )
            send(name, message)

        party.links.send = sending  # type: ignore[method-assign]

    return install


# ---- the party with the labels


def test_what_the_label_party_says_is_signed_and_cannot_be_taken_back(split: Meeting) -> None:
    """V2: an accuracy of a few per cent is reported as 100 %. It cannot be seen at once; it can never be denied."""
    lie = tell(lambda metrics: {**metrics, "loss": 0.0, "correct": 160.0} if "correct" in metrics else metrics)
    with up(split, carol=lie) as leader:
        assert evaluate(leader, split.data, labels_at="carol").accuracy.value == 1.0
    entry = next(read_ledger(split.folders["carol"].ledger).entries())
    assert entry.metrics == {"loss": 0.0, "correct": 160.0}
    for name in ("alice", "bob"):
        held = [each for each in read_ledger(split.folders[name].ledger).receipts() if each.party == "carol"]
        stated = next(each.event for each in held if each.event.kind == "prepared")
        assert stated.values["metrics"] == entry.metrics
        assert stated.values["entry"] == entry.hash
    assert found(split).sound
    rewrite(split, "carol", "entries", lambda line: {**line, "metrics": {"loss": 9.9, "correct": 17.0}})
    kinds = {(finding.kind, finding.party) for finding in found(split).findings}
    assert ("prepared", "carol") in kinds


def rewrite(split: Meeting, name: str, table: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the last line of a party's ledger, and sign it again with its real key."""
    identity = Identity.at(split.folders[name].path, name)
    with sqlite3.connect(split.folders[name].ledger) as database:
        number, text = database.execute(f"SELECT number, line FROM {table} ORDER BY number DESC LIMIT 1").fetchone()
        line = change(json.loads(text))
        if table == "entries":
            old = read(Entry, line)
            new: Entry | Event = Entry.sign(
                old.of,
                old.consents,
                old.sent,
                old.received,
                old.metrics,
                previous=old.previous,
                party=name,
                signer=identity.signer,
            )
        else:
            was = read(Event, line)
            new = Event.sign(
                was.number,
                was.time,
                was.kind,
                was.text,
                was.values,
                previous=was.previous,
                party=name,
                signer=identity.signer,
            )
        database.execute(f"UPDATE {table} SET line = ? WHERE number = ?", (new.line(), number))


def test_more_right_answers_than_rows_are_refused(split: Meeting) -> None:
    lie = tell(lambda metrics: {**metrics, "correct": 1000.0})
    with up(split, carol=lie) as leader, pytest.raises(GovernError, match="says that 1000 of the 160 answers"):
        evaluate(leader, split.data, labels_at="carol")


def test_a_loss_that_is_no_number_is_refused(split: Meeting) -> None:
    with (
        up(split, carol=tell(lambda metrics: {})) as leader,
        pytest.raises(GovernError, match="does not tell the loss"),
    ):
        train(leader)


def test_a_party_that_prepares_for_another_attempt_commits_nothing(split: Meeting) -> None:
    def install(party: Party) -> None:
        attempts = party.ledger.attempts
        prepare = attempts.prepare

        def preparing(attempt: Any, entry: Entry, told: Any = None) -> Event:
            return prepare(replace(attempt, name="f" * 64), entry, told)

        attempts.prepare = preparing  # type: ignore[method-assign]

    with up(split, carol=install) as leader, pytest.raises(GovernError, match="Its statement is of another attempt"):
        train(leader)
    assert read_ledger(split.folders["alice"].ledger).committed == 0


def test_a_party_that_does_not_begin_stops_the_pass(split: Meeting) -> None:
    def install(party: Party) -> None:
        def begin(of: Pass, consents: Any) -> Any:
            raise ConsentRefused("I would rather not.")

        party.passes.record.begin = begin  # type: ignore[method-assign]

    with up(split, carol=install) as leader:
        with pytest.raises(ConsentRefused, match="I would rather not"):
            infer(leader, split.data.x[:5])
        assert leader.party.passes.answers.numel() == 0
    sent = [event for event in read_ledger(split.folders["alice"].ledger).events() if event.kind == "given up"]
    assert "after 0 messages had come and 0 had left" in sent[0].text


# ---- the party in the middle


@pytest.mark.parametrize("size", [1e6, -1e6])
def test_numbers_beyond_what_was_agreed_are_refused(split: Meeting, size: float) -> None:
    """V4."""
    change = send_instead("activations", lambda tensor: torch.full_like(tensor, size))
    with up(split, bob=change) as leader, pytest.raises(PartyUnavailable, match="from 'bob' hold numbers up to 1e"):
        train(leader)
    told = [event.text for event in read_ledger(split.folders["carol"].ledger).events()]
    assert any("from 'bob' hold numbers up to 1e+06" in text for text in told)


def test_noise_in_place_of_activations_contradicts_the_record(split: Meeting) -> None:
    """V5: noise of the right size is let through. Bob logs what he computed, Carol what came."""
    torch.manual_seed(1)
    with up(split, bob=send_instead("activations", torch.randn_like)) as leader:
        train(leader, updates=1)
    findings = found(split).findings
    assert {(finding.kind, finding.party, finding.peer) for finding in findings} == {("crossing", "bob", "carol")}


def test_a_party_that_leaves_an_attempt_out_of_its_account_is_found(split: Meeting) -> None:
    with up(split) as leader:
        infer(leader, split.data.x[:5])
    with sqlite3.connect(split.folders["bob"].ledger) as database:
        last = database.execute("SELECT max(number) FROM events").fetchone()[0]
        database.execute("DELETE FROM events WHERE number > ?", (last - 4,))
    findings = {(finding.kind, finding.party) for finding in found(split).findings}
    assert ("rewritten", "bob") in findings


def test_a_party_that_forgets_the_others_intents_is_found(split: Meeting) -> None:
    """Bob's software lets things cross without keeping what Carol has stated."""

    def install(party: Party) -> None:
        def clear(receipts: Any) -> None:
            party.passes.record.cleared = True

        party.passes.record.clear = clear  # type: ignore[method-assign]

    with up(split, bob=install) as leader:
        infer(leader, split.data.x[:5])
    findings = [finding for finding in found(split).findings if finding.party == "bob"]
    assert any("holds no intent of" in finding.text for finding in findings)


# ---- withdrawal


def test_no_pass_is_prepared_after_a_withdrawal_is_written_down(split: Meeting) -> None:
    """In the middle of a training, at a moment that nobody chose."""
    carol = ConsentState(split.folders["carol"].consent)
    forward = Computation.forward
    calls = iter(range(1000))

    def withdrawing(self: Computation, *args: Any) -> Any:
        if next(calls) == 7:
            carol.withdraw("enough")
        return forward(self, *args)

    changed = patch.object(Computation, "forward", withdrawing)
    with up(split) as leader, changed, pytest.raises(ConsentRefused, match="enough"):
        train(leader)
    carol.close()
    events = list(read_ledger(split.folders["carol"].ledger).events())
    when = next(event.values["time"] for event in events if event.kind == "withdrawn")
    later = [event.kind for event in events if event.time > when]
    assert not {"intent", "prepared"} & set(later)
    assert found(split).sound


# ---- the party that asks


def test_scores_of_inputs_that_the_asker_made_up_give_labels_away(split: Meeting) -> None:
    """Not prevented, and said so in docs/protocol.md: one input is exchanged, and the loss moves as its label says."""
    x, y = split.data.x[:8], split.data.y[:8]
    labels = split.agreement.labels.fingerprint
    with up(split) as leader:
        party = leader.party

        def loss(inputs: torch.Tensor) -> float:
            with party.materials.lend(inputs):
                return leader.run("evaluate", _make_pass(party, "evaluate", inputs, "carol", labels, 0, 8))["loss"]

        other = torch.rand_like(x[:1])
        scores = infer(leader, torch.cat([x, other])).log_softmax(1)
        before = loss(x)
        learned = []
        for row in range(3):
            moved = loss(torch.cat([x[:row], other, x[row + 1 :]])) - before
            learned.append(int((scores[row] - scores[8] - moved).abs().argmin()))
    assert learned == y[:3].tolist()
