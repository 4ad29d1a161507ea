"""What messages say is read strictly: numbers, measured values, and errors as what they are."""

from __future__ import annotations

from typing import Any

import pytest

from govern.asking import a_pass
from modelkeep.core.errors import ConsentPending, ConsentRefused, GovernError, PartyUnavailable, WireError
from modelkeep.govern.ledger.entry import Event
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.session.messages import describe_error, read_consents, read_metrics, read_number, read_refusal
from modelkeep.govern.wire.message import Message


@pytest.mark.parametrize("number", [None, True, 1.0, -1, 2**63, "1", [1]])
def test_what_is_no_number_is_refused(number: object) -> None:
    with pytest.raises(WireError, match="must say its 'step'"):
        read_number(Message("close", {"step": number}), "step")


@pytest.mark.parametrize(
    "error", [ConsentPending("a", 3.0), ConsentRefused("b"), PartyUnavailable("c"), GovernError("d")], ids=str
)
def test_errors_are_told_as_what_they_are(error: GovernError) -> None:
    told = read_refusal(Message("refusal", describe_error(error)))
    assert (type(told), str(told)) == (type(error), str(error))


@pytest.mark.parametrize("seconds", [None, "5", -1.0, 3601, float("inf"), float("nan")])
def test_a_party_cannot_make_another_wait_for_ever(seconds: object) -> None:
    told = read_refusal(Message("refusal", {"kind": "pending", "reason": "later", "seconds": seconds}))
    assert isinstance(told, ConsentPending)
    assert told.seconds == 1.0


@pytest.mark.parametrize("metrics", [None, [], {}, {"correct": 1}, {"loss": "1"}, {"loss": True}, {"loss": 1e999}])
def test_what_was_not_measured_in_numbers_is_refused(metrics: Any) -> None:
    with pytest.raises(GovernError, match="does not tell the loss"):
        read_metrics(prepared(metrics), a_pass())
    assert read_metrics(prepared({"loss": 2}), a_pass()) == {"loss": 2.0}


@pytest.mark.parametrize("correct", [-1, 17, 1e9])
def test_more_right_answers_than_answers_are_refused(correct: float) -> None:
    with pytest.raises(GovernError, match="of the 16 answers"):
        read_metrics(prepared({"loss": 2, "correct": correct}), a_pass())


def prepared(metrics: Any) -> Receipt:
    return Receipt("bob", Event(0, 0.0, "prepared", "", {"metrics": metrics}, "", ""))


def test_consents_come_as_a_list() -> None:
    assert read_consents(Message("begin", {"consents": []})) == []
    with pytest.raises(WireError, match="without the parties' consents"):
        read_consents(Message("begin", {"consents": {}}))
