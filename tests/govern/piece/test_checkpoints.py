"""Where a party's part stands: its checkpoints, and the way back to one of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from govern.meeting import meeting
from modelkeep.core.errors import GovernError
from modelkeep.govern.piece.checkpoints import PieceState
from modelkeep.govern.session.party import Party


@pytest.fixture
def alice(tmp_path: Path) -> Iterator[Party]:
    """Alice in this process; Bob is not there."""
    split = meeting(tmp_path, {}, "govern.networks:digit_network", "pictures", ["2"], ["alice", "bob"], "bob")
    with Party(split.folders["alice"], data=[split.data]) as party:
        yield party


def test_a_checkpoint_that_only_one_party_has_does_not_push_out_the_last_one_that_all_have(alice: Party) -> None:
    for step in (4, 8, 10):  # at 10 Alice ended a session, and Bob died before he had kept that one too
        alice.pieces.step = step
        alice.state.keep()
    alice.state.go_to(8)
    alice.pieces.step = 12
    alice.state.keep()
    assert alice.state.checkpoints.steps() == [8, 12]


def test_an_update_that_is_not_committed_is_never_kept(alice: Party) -> None:
    state: PieceState = alice.state
    assert (state.committed_step, state.checkpoints.steps()) == (0, [0])
    alice.pieces.step, state.uncommitted = 4, True
    state.keep_when_due()
    assert (state.committed_step, state.checkpoints.steps()) == (None, [0])
    state.go_to(0)
    assert (state.committed_step, alice.pieces.step) == (0, 0)
    assert [event.kind for event in alice.ledger.events()] == ["rewound"]
    with pytest.raises(GovernError, match="no checkpoint after 5 updates"):
        state.go_to(5)


def test_checkpoints_are_written_when_the_agreement_says(alice: Party) -> None:
    for step in range(1, 9):
        alice.pieces.step = step
        alice.state.keep_when_due()
    assert alice.state.checkpoints.steps() == [4, 8]
