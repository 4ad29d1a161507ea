"""The leader: how long it tries again to reach a party that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from govern.meeting import meeting
from modelkeep.core.errors import PartyUnavailable
from modelkeep.govern.session.leader import Leader
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.runs import train


@pytest.fixture
def alice(tmp_path: Path) -> Iterator[Party]:
    """Alice in this process; Bob is not there."""
    split = meeting(tmp_path, {}, "govern.networks:digit_network", "pictures", ["2"], ["alice", "bob"], "bob")
    with Party(split.folders["alice"], data=[split.data]) as party:
        yield party


def test_who_leads_loses_patience_with_a_party_that_does_not_come_back(alice: Party) -> None:
    told: list[str] = []
    with pytest.raises(PartyUnavailable, match=r"Tried again for 0\.5 seconds"):
        train(Leader(alice, patience=0.5, tell=told.append))
    assert told
    assert all("'bob' cannot be reached" in sentence for sentence in told)
    assert [event.kind for event in alice.ledger.events()].count("recovering") == 1
