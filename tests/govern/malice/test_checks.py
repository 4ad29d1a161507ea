"""Parties that cheat and log it well, each with its real key: a check finds them, with their names.

The asker of a check (`SpotCheck`) computes again (`Recomputation`) what the other party did.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from govern.malice.test_members import Change, found, tell, up
from govern.meeting import MOMENTUM, Meeting, meeting
from govern.parties import approve
from modelkeep.core.errors import ConsentRefused, GovernError, PartyUnavailable
from modelkeep.govern.agreement.limits import Limits
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.piece.computation import Computation
from modelkeep.govern.piece.openings import Opening, read_opening
from modelkeep.govern.piece.payload import Payload
from modelkeep.govern.piece.recomputation import Recomputation
from modelkeep.govern.session import oversight
from modelkeep.govern.session.leader import Leader
from modelkeep.govern.session.oversight import check
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.runs import evaluate, infer, train
from modelkeep.govern.session.service import serve
from modelkeep.govern.session.spot_check import SpotCheck
from modelkeep.govern.wire.message import Message
from modelkeep.govern.wire.settings import Wire
from modelkeep.training.checkpoint import Snapshot


@pytest.fixture
def split(tmp_path: Path) -> Meeting:
    """Alice has the data, Bob the second piece, Carol the labels. Six passes can be checked."""
    made = meeting(
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
        limits=Limits(checked_passes=6),
    )
    for name in ("bob", "carol"):
        approve(made.folders[name], "check", 3)
    return made


def compute_instead(kind: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """Let a party send other tensors than its piece gives, and log those that it sends."""

    def install(party: Party) -> None:
        send = party.passes._send

        def sending(computation: Computation, to: int, at: int, part: int, what: Any, payload: Payload) -> None:
            if what == kind:
                values = tuple(change(v) if isinstance(v, torch.Tensor) else v for v in payload.values)
                payload = Payload(values, payload.wants, payload.random)
            send(computation, to, at, part, what, payload)

        party.passes._send = sending  # type: ignore[method-assign]

    return install


@pytest.mark.parametrize("kind", ["activations", "gradients"])
def test_noise_that_is_logged_is_found_by_a_check(split: Meeting, kind: str) -> None:
    """V5: the ledgers agree, so an audit finds nothing, until one of the passes is computed again."""
    with up(split, bob=compute_instead(kind, lambda tensor: 0.01 * torch.randn(tensor.shape))) as leader:
        train(leader, updates=5)
        assert found(split).sound
        verdict = check(leader, "bob")
        assert check(leader, "carol").agrees
    assert f"'bob' sent {kind} to" in verdict.wrong
    assert not verdict.agrees
    findings = found(split).findings
    assert {(finding.kind, finding.party) for finding in findings} == {("check", "bob")}
    assert "'alice' has computed this pass of 'bob' again" in findings[0].text


def test_a_loss_that_was_never_measured_is_found_by_a_check(split: Meeting) -> None:
    """V2: the label party reports what it likes. It shows its labels to the checker, who knows their fingerprint."""
    lie = tell(lambda metrics: {**metrics, "loss": 0.0} if metrics else metrics)
    with up(split, carol=lie) as leader:
        evaluate(leader, split.data, labels_at="carol")
        verdict = check(leader, "carol")
    assert re.search(r"'carol' stated {.*'loss': 0\.0.*}; what follows is {'loss': \d", verdict.wrong)


def exchange_weights(at: int) -> Change:
    """Let a party put other weights in the place of its own when it keeps the state after this update."""

    def install(party: Party) -> None:
        keep = party.state.keep

        def keeping() -> None:
            if party.pieces.step == at and at not in party.state.checkpoints.steps():
                for tensor in party.pieces.tensors().values():
                    tensor.mul_(0.5)
            keep()

        party.state.keep = keeping  # type: ignore[method-assign]

    return install


def test_a_state_that_does_not_follow_from_the_one_before_is_found(split: Meeting) -> None:
    """All that Bob sends from then on follows from the state that he states: so states are computed again as well."""
    with (
        up(split, bob=exchange_weights(at=3)) as leader,
        patch("modelkeep.govern.session.pass_participant.draw", return_value=4),
    ):
        train(leader, updates=5)
        verdict = check(leader, "bob")
        assert check(leader, "carol").agrees
    assert "stated another state with pass 3 (train, asked by alice) than follows" in verdict.wrong
    assert {(finding.kind, finding.party) for finding in found(split).findings} == {("check", "bob")}


def test_a_party_cannot_open_its_newest_state_alone(split: Meeting) -> None:
    """Then nothing would show where that state comes from."""

    def install(party: Party) -> None:
        opened = party.passes.openings.open

        def opening(*asked: Any) -> torch.Tensor:
            party.passes.openings._states.pop(0, None)
            return opened(*asked)

        party.passes.openings.open = opening  # type: ignore[assignment, method-assign]

    with up(split, bob=install) as leader, patch("modelkeep.govern.session.pass_participant.draw", return_value=4):
        train(leader, updates=5)
        verdict = check(leader, "bob")
    assert "nothing shows where that state comes from" in verdict.wrong


def test_another_state_than_was_stated_is_not_taken(split: Meeting) -> None:
    """Bob shows a piece that he has made up since then."""

    def install(party: Party) -> None:
        opened = party.passes.openings.open

        def opening(*asked: Any) -> torch.Tensor:
            for path in split.folders["bob"].openings.glob("state-*"):
                state = Snapshot.from_bytes(path.read_bytes(), "Bob's state")
                path.unlink()
                path.write_bytes(replace(state, tensors={**state.tensors, "made up": torch.ones(1)}).to_bytes())
            return opened(*asked)

        party.passes.openings.open = opening  # type: ignore[assignment, method-assign]

    with up(split, bob=install) as leader:
        train(leader, updates=2)
        verdict = check(leader, "bob")
    assert "is not the one that was stated" in verdict.wrong


def test_what_is_no_opening_is_refused_in_a_sentence(split: Meeting) -> None:
    with pytest.raises(GovernError, match="The opening cannot be read"):
        read_opening(torch.zeros(9, dtype=torch.uint8))
    nothing = Opening(b"", [], {}, {}, {})
    with pytest.raises(GovernError, match="is not the one that was drawn, 3"):
        Recomputation(split.agreement, "bob", lambda number: []).check(nothing, 3)


def test_a_party_that_does_not_open_is_on_the_record(split: Meeting) -> None:
    def install(party: Party) -> None:
        def refuse(*asked: Any) -> torch.Tensor:
            raise GovernError("I have lost it.")

        party.passes.openings.open = refuse  # type: ignore[assignment, method-assign]

    with up(split, bob=install) as leader:
        train(leader, updates=2)
        with pytest.raises(GovernError, match="I have lost it"):
            check(leader, "bob")
    ends = found(split).given_up
    assert {(end.party, end.purpose) for end in ends} == {(name, "check") for name in split.folders}
    told = [event.text for event in read_ledger(split.folders["alice"].ledger).events() if event.kind == "given up"]
    assert any("I have lost it" in text for text in told)


def test_a_secret_is_not_chosen_after_the_others_were_seen(split: Meeting) -> None:
    """Bob would rather have another pass drawn, and shows another secret than the one that he was bound to."""

    def install(party: Party) -> None:
        attempts = party.ledger.attempts
        begin = attempts.begin
        attempts.begin = lambda attempt, secret="": begin(attempt, secret and "f" * 64)  # type: ignore[method-assign]

    with up(split, bob=install) as leader:
        train(leader, updates=2)
        with pytest.raises((GovernError, PartyUnavailable), match="'bob' shows another secret"):
            check(leader, "bob")


def test_a_check_draws_once(split: Meeting) -> None:
    """A checker who does not like the draw begins the very same check again, for which it needs no new approval."""
    with up(split) as leader, patch.object(oversight, "token_hex", lambda size: "7" * 64):
        train(leader, updates=2)
        opened = leader.party.passes._examine

        def break_off(check: SpotCheck, peer: str, message: Message) -> None:
            raise GovernError("Not this one.")

        leader.party.passes._examine = break_off  # type: ignore[method-assign]
        with pytest.raises(GovernError, match="Not this one"):
            check(leader, "bob")
        leader.party.passes._examine = opened  # type: ignore[method-assign]
        with pytest.raises(ConsentRefused, match="A check draws once"):
            check(leader, "bob")


def test_a_check_needs_a_person_at_each_party(split: Meeting) -> None:
    with up(split) as leader:
        train(leader, updates=2)
        for _ in range(3):
            check(leader, "bob")
        with pytest.raises(ConsentRefused, match="waits for a person at 'bob'"):
            check(leader, "bob")


def test_the_party_with_the_data_is_checked_too(split: Meeting) -> None:
    """Bob leads, and Alice shows him her inputs, which have the agreed fingerprint, and her piece."""
    with up(split) as leader:
        train(leader, updates=4)
        infer(leader, split.data.x[:5])
    approve(split.folders["alice"], "check", 3)
    stop = threading.Event()
    with ExitStack() as opened:
        served = [opened.enter_context(Party(split.folders[name], data=[split.data])) for name in ("alice", "carol")]
        for party in served:
            thread = threading.Thread(target=serve, args=(party, stop))
            thread.start()
            opened.callback(thread.join)
        opened.callback(stop.set)
        bob = opened.enter_context(Party(split.folders["bob"]))
        for number in (2, 4):  # an update, and the inference, whose inputs Alice has not among her data
            with patch("modelkeep.govern.session.pass_participant.draw", lambda *asked, drawn=number: drawn):
                verdict = check(Leader(bob, patience=5.0), "alice")
            assert (verdict.wrong, verdict.number) == ("", number)
