"""Signatures travel: a draft reaches all, each person signs, and all have all signatures without a copy by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from govern.exchanging import Exchanging, met, sign
from modelkeep.core.errors import GovernError
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.identity import Identity
from modelkeep.govern.session.exchange import Exchange, describe, know_parties
from processes import wait_until


def test_a_draft_and_all_signatures_reach_everybody_and_nothing_signs_by_itself(tmp_path: Path) -> None:
    draft, folders = met(tmp_path)
    sign(folders["alice"], draft)
    running = {name: Exchanging(folder, draft) for name, folder in folders.items()}
    try:
        for name in ("bob", "carol"):
            wait_until(lambda name=name: running[name].has_heard("'alice' proposes the agreement 'test'"))  # type: ignore[misc]
            assert not folders[name].agreement.exists()
            proposal = Agreement.read(folders[name].path / "proposed-alice.json")
            assert (proposal.fingerprint, set(proposal.signatures)) == (draft.fingerprint, {"alice"})
        for name in ("bob", "carol"):
            sign(folders[name], Agreement.read(folders[name].path / "proposed-alice.json"))
    finally:
        for each in running.values():
            each.thread.join()
    for folder in folders.values():
        agreement = folder.signed_agreement()
        assert (agreement.fingerprint, set(agreement.signatures)) == (draft.fingerprint, set(folders))
    assert [each.outcome[0] is not None for each in running.values()] == [True] * 3


def test_a_second_key_for_a_known_name_is_refused(tmp_path: Path) -> None:
    _, folders = met(tmp_path)
    other = Identity.at(tmp_path / "elsewhere", "alice")
    with pytest.raises(GovernError, match="another key for 'alice'"):
        know_parties(folders["bob"], [other.folder / "alice.party.json"])


def test_a_proposal_that_changes_is_shown_anew(tmp_path: Path) -> None:
    draft, folders = met(tmp_path)
    told: list[str] = []
    known = know_parties(folders["bob"], [])
    exchange = Exchange(folders["bob"], folders["bob"].identity(), known, told.append)
    exchange.take(describe(draft), "alice")
    exchange.take(describe(draft), "alice")
    exchange.take(describe(replace(draft, seed=7)), "alice")
    assert [draft.fingerprint[:12] in told[0], len(told)] == [True, 2]
    assert Agreement.read(tmp_path / "bob" / "proposed-alice.json").seed == 7
