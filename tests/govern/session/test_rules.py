"""The rules of every pass: what was agreed on, whose consent it needs, and when its turn is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from govern.ledger_runs import Run, make_agreement, make_identities
from modelkeep.core.errors import ConsentRefused, GovernError, WireError
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.passes import Pass
from modelkeep.govern.session.rules import require_agreed, require_turn


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Agreement, Run]]:
    """Three parties that have logged and committed two passes, and logged a third."""
    folder: Path = tmp_path_factory.mktemp("rules")
    identities = make_identities(folder)
    agreement = make_agreement(identities)
    run = Run.at(folder, agreement.fingerprint, {name: one.signer for name, one in identities.items()})
    run.go_on(2)
    run.prepare(a_pass(agreement, number=2, step=2))
    yield agreement, run
    run.close()


def a_pass(agreement: Agreement, /, **other: Any) -> Pass:
    agreed: dict[str, Any] = {
        "agreement": agreement.fingerprint,
        "number": 0,
        "purpose": "train",
        "asker": "alice",
        "source": "alice",
        "sink": "carol",
        "step": 0,
        "data": agreement.data.fingerprint,
        "labels": agreement.labels.fingerprint,
        "rows": 4,
        "parts": agreement.recipe.micro_batches,
    }
    return Pass(**{**agreed, **other})


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"agreement": "a" * 64}, "under another agreement"),
        ({"source": "bob"}, "the asker brings the inputs"),
        ({"sink": "mallory"}, "a party takes the outputs"),
        ({"data": "x"}, "named by their fingerprints"),
        ({"step": 1}, "1 updates were agreed on"),
        ({"rows": 3}, "its rows must be 4"),
        ({"parts": 2}, "its parts must be 1"),
        ({"purpose": "evaluate", "rows": 0}, "1 to 1,048,576 rows"),
        ({"purpose": "infer", "sink": "bob", "labels": ""}, "go to the asker"),
    ],
)
def test_a_pass_that_was_not_agreed_on_is_refused(
    world: tuple[Agreement, Run], other: dict[str, Any], words: str
) -> None:
    agreement, _ = world
    require_agreed(a_pass(agreement), agreement)
    require_agreed(a_pass(agreement, purpose="infer", sink="alice", labels="", rows=9), agreement)
    with pytest.raises(ConsentRefused, match=words):
        require_agreed(a_pass(agreement, **other), agreement)


@pytest.mark.parametrize(
    ("other", "step", "words"),
    [
        ({"number": 1, "step": 1}, 1, "out of turn"),  # committed, with other details
        ({"number": 3, "step": 3}, 3, "out of turn"),  # too soon
        ({"number": 2, "step": 1}, 1, "2 are in the ledger before it"),  # the same update twice
        ({"number": 2, "step": 3}, 3, "2 are in the ledger before it"),  # an update that is in no ledger
        ({"number": 2, "step": 2}, 1, "'bob' is at 1"),
        ({"number": 2, "step": 2}, None, "'bob' is at None"),
        ({"agreement": "a" * 64}, 0, "of another agreement"),
    ],
)
def test_a_pass_out_of_turn_is_refused(
    world: tuple[Agreement, Run], other: dict[str, Any], step: int | None, words: str
) -> None:
    agreement, run = world
    ledger = run.ledgers["bob"]
    require_turn(a_pass(agreement, number=2, step=2), agreement, ledger, 2)
    require_turn(ledger.entry(1).of, agreement, ledger, 1)  # it runs again after a fault
    with pytest.raises(GovernError, match=words) as refused:
        require_turn(a_pass(agreement, **other), agreement, ledger, step)
    assert isinstance(refused.value, WireError) or "agreement" in words
