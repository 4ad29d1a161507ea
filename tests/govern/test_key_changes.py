"""Keys from the first to the last day: each change is asked for, signed by all who must, and in every ledger."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from govern.key_folders import Parties
from govern.ledger_runs import make_pass
from modelkeep.core.errors import GovernError
from modelkeep.core.fingerprint import fingerprint
from modelkeep.govern.agreement.key_change import KeyChange
from modelkeep.govern.identity import Identity, PublicIdentity
from modelkeep.govern.key_changes import ask_for_change, sign_change
from modelkeep.govern.ledger.attempts import Attempt
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.piece.release import find_release, read_release

ORDER = {"bob": ("carol", "alice", "bob", "carol"), "alice": ("bob", "carol", "alice", "bob", "carol")}


@pytest.fixture
def parties(tmp_path: Path) -> Parties:
    return Parties.at(tmp_path)


@pytest.mark.parametrize("name", ["bob", "alice"])
def test_after_a_rotation_the_new_key_speaks_and_all_that_the_old_one_signed_holds(
    parties: Parties, tmp_path: Path, name: str
) -> None:
    old, new = parties.folders[name].identity(), parties.new_key(name)
    change = parties.sign(parties.rotation(name), *ORDER[name])
    assert change.missing(["alice", "bob", "carol"]) == []
    for folder in parties.folders.values():
        assert folder.key_history().current[name] == new.public_key
    assert parties.folders[name].identity().public_key == new.public_key
    assert PublicIdentity.read(parties.folders[name].path / f"{name}.party.json") == new.public
    assert not parties.folders[name].next_identity.exists()
    parties.go_on(3)
    found = parties.audit()
    assert found.sound, found
    assert [(each.party, each.kind, each.passes) for each in found.key_changes] == [(name, "rotate", 3)]
    assert f"key of {name}" in str(found)
    entries = list(read_ledger(parties.folders[name].ledger).entries())
    assert [entry.is_of(name, old.public_key) for entry in entries] == [True] * 3 + [False] * 3
    assert [entry.is_of(name, new.public_key) for entry in entries] == [False] * 3 + [True] * 3
    again = parties.sign(parties.rotation(name), *ORDER[name])
    assert (again.number, again.passes) == (1, 6)
    parties.go_on(1)
    assert parties.audit().sound


def test_a_lost_key_is_revoked_and_another_one_comes_in(parties: Parties) -> None:
    carol, alice = parties.folders["carol"], parties.folders["alice"]
    (carol.path / "key.pem").unlink()
    revoked = parties.sign(ask_for_change(alice, "revoke", party="carol", reason="stolen"), "bob", "alice", "bob")
    assert revoked.consents.keys() == {"alice", "bob"}
    with pytest.raises(GovernError, match="The key of 'carol' was revoked, and it has no other one, so nothing runs"):
        alice.key_history().require_all()
    new = parties.new_key("carol")
    change = ask_for_change(alice, "replace", party="carol", new=new.public, reason="stolen")
    assert change.old_key == ""
    change = parties.sign(change, "bob", "alice", "bob")
    with pytest.raises(GovernError, match="does not follow"):
        sign_change(carol, change)  # she has not heard of the first one
    sign_change(carol, revoked)
    sign_change(carol, change)
    parties.go_on(2)
    assert parties.audit().sound
    assert [change.kind for change in carol.key_history().changes] == ["revoke", "replace"]


def test_a_key_is_replaced_without_the_old_one(parties: Parties) -> None:
    carol, alice = parties.folders["carol"], parties.folders["alice"]
    (carol.path / "key.pem").unlink()
    change = ask_for_change(alice, "replace", party="carol", new=parties.new_key("carol").public, reason="forgotten")
    assert change.required(["alice", "bob", "carol"]) == ["alice", "bob"]
    complete = parties.sign(change, "bob", "alice", "bob", "carol", "carol")
    assert carol.identity().public_key == complete.new_key
    parties.go_on(2)
    found = parties.audit()
    assert found.sound, found
    assert found.key_changes[0].consents == ("alice", "bob")


def test_who_leaves_needs_no_consent_and_nothing_runs_or_changes_any_more(parties: Parties) -> None:
    change = ask_for_change(parties.folders["carol"], "leave", reason="the contract has ended")
    parties.sign(change, "alice", "bob")
    for folder in parties.folders.values():
        with pytest.raises(GovernError, match=r"'carol' has left \(the contract has ended\), so nothing runs"):
            folder.key_history().require_all()
    with pytest.raises(GovernError, match="The agreement has ended"):
        parties.rotation("bob")
    assert parties.folders["carol"].signed_agreement() == parties.agreement  # she may still show her ledger
    assert parties.audit().sound


def test_the_first_by_name_signs_last(parties: Parties) -> None:
    change = parties.rotation("bob")
    with pytest.raises(GovernError, match=r"'alice' signs last.*Before it, carol must"):
        parties.sign(change, "alice")


def test_who_signs_last_and_loses_the_file_gets_it_back(parties: Parties) -> None:
    change = parties.sign(parties.rotation("bob"), "carol")
    complete = parties.sign(change, "alice")
    assert change.missing(["alice", "bob", "carol"]) == ["alice"]
    assert parties.sign(change, "alice") == complete


def test_of_two_changes_at_once_only_one_comes_about(parties: Parties) -> None:
    one, other = parties.rotation("bob"), parties.rotation("carol")
    one, other = parties.sign(one, "carol"), parties.sign(other, "bob")
    one = parties.sign(one, "alice")
    with pytest.raises(GovernError, match="does not follow from the 1 changes before it"):
        parties.sign(other, "alice")
    parties.sign(one, "bob", "carol")
    again = parties.sign(parties.rotation("carol"), "bob", "alice", "carol", "bob")
    assert again.number == 1
    parties.go_on(1)
    assert parties.audit().sound


def test_none_signs_while_passes_go_on_or_one_is_not_settled(parties: Parties) -> None:
    change = parties.rotation("bob")
    folder = parties.folders["bob"]
    parties.go_on(1)
    with pytest.raises(GovernError, match="'carol' has 4 committed passes"):
        parties.sign(change, "carol")
    with folder.lock(), pytest.raises(GovernError, match="Another process works in"):
        parties.rotation("bob")


def test_a_process_killed_after_any_step_leaves_a_party_that_goes_on(parties: Parties) -> None:
    change = parties.sign(parties.rotation("bob"), "carol", "alice")
    bob = parties.folders["bob"]
    for after in ("key.pem", "identity.json"):
        child = os.fork()
        if child == 0:  # pragma: no cover: it ends here
            _kill_before_move_of(after)
            sign_change(bob, change)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        assert read_ledger(bob.ledger).public_key == change.new_key
    assert bob.identity().public_key == change.new_key
    assert sign_change(bob, change) == change
    parties.sign(change, "carol")
    parties.go_on(1)
    assert parties.audit().sound


def _kill_before_move_of(name: str) -> None:
    move = Path.replace

    def die(path: Path, target: Path) -> Path:
        if path.name == name and path.parent.name == "next":
            os.kill(os.getpid(), signal.SIGKILL)
        return move(path, target)

    Path.replace = die  # type: ignore[method-assign, assignment]


def test_a_pass_that_was_prepared_and_that_none_has_committed_is_given_up(parties: Parties) -> None:
    change = parties.rotation("bob")
    carol = parties.folders["carol"]
    change = parties.sign(change, "carol")
    with Ledger(carol.ledger, "carol", carol.identity().signer) as ledger:
        attempt = Attempt(make_pass(parties.agreement.fingerprint, 3), "x", "s")
        ledger.attempts.begin(attempt)
        ledger.attempts.prepare(attempt, ledger.prepare(attempt.of, (), (), ()), {})
    parties.sign(change, "alice", "carol", "bob")  # Alice has not prepared it, so it is committed nowhere
    with Ledger(carol.ledger, "carol", carol.identity().signer) as ledger:
        assert (ledger.length, ledger.committed, ledger.attempts.unended()) == (3, 3, [])
        assert [event.kind for event in ledger.events()] == ["intent", "prepared", "given up", "key change"]


def test_a_new_key_of_another_name_or_place_is_refused(parties: Parties, tmp_path: Path) -> None:
    bob = parties.folders["bob"]
    with pytest.raises(GovernError, match="The new key is of 'carol', not of 'bob'"):
        ask_for_change(bob, "rotate", new=parties.new_key("carol").public)
    elsewhere = Identity.at(tmp_path / "elsewhere", "bob")
    change = ask_for_change(bob, "rotate", new=elsewhere.public)
    change = parties.sign(change, "carol", "alice")
    with pytest.raises(GovernError, match="The new key of 'bob' is not in"):
        sign_change(bob, change)
    Identity.at(bob.next_identity, "bob")
    with pytest.raises(GovernError, match="is not the one that the key change 0"):
        sign_change(bob, change)


def test_a_change_is_a_file_that_comes_back_as_it_was(parties: Parties, tmp_path: Path) -> None:
    change = parties.rotation("bob")
    assert KeyChange.read(change.write(tmp_path / "change.json")) == change


def test_a_release_shows_which_keys_spoke_when_it_was_made(parties: Parties) -> None:
    """The pieces may go out after a rotation: the proof in the file brings the change along."""
    parties.sign(parties.rotation("bob"), "carol", "alice", "bob", "carol")
    of = make_pass(parties.agreement.fingerprint, 3, "release")
    tensors = {"weight": torch.zeros(2)}
    for name, folder in parties.folders.items():
        told = {"piece": fingerprint(tensors, name)}
        with Ledger(folder.ledger, name, folder.identity().signer) as ledger:
            attempt = Attempt(of, "x", "s")
            ledger.attempts.begin(attempt)
            ledger.attempts.prepare(attempt, ledger.prepare(of, (), (), ()), told)
            ledger.commit(3)
            ledger.attempts.end(attempt, "committed", "done")
    found = {name: find_release(read_ledger(folder.ledger)) for name, folder in parties.folders.items()}
    statements = tuple(receipt for each in found.values() if each is not None for receipt in each.prepared)
    assert found["carol"] is not None
    release = replace(found["carol"], prepared=statements)
    read_release(release.line(), "carol").check(parties.agreement, "carol", tensors)
    with pytest.raises(GovernError, match="'prepared' of 'bob' is not signed by 'bob'"):
        replace(release, changes=()).check(parties.agreement, "carol", tensors)
