"""Which key speaks when, and every change that must not come about, signed with real keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from govern.ledger_runs import make_agreement, make_identities
from modelkeep.core.errors import GovernError, InputError
from modelkeep.govern.agreement.key_change import KeyChange
from modelkeep.govern.agreement.key_history import KeyHistory
from modelkeep.govern.identity import Identity


class World:
    """Three parties, and keys to come."""

    def __init__(self, root: Path) -> None:
        self.now = make_identities(root)
        self.history = KeyHistory(make_agreement(self.now))
        self.new = {f"{name}{i}": Identity.at(root / f"{name}{i}", name) for name in ("bob", "carol") for i in (1, 2)}

    def change(self, kind: str = "rotate", new: str = "bob1", asker: str = "bob", **other: Any) -> KeyChange:
        """A change as it is asked for, before any consent."""
        fresh = self.new[new].public if new else None
        party = other.get("party", fresh.name if fresh else "bob")
        values: dict[str, Any] = {
            "agreement": self.history.agreement.fingerprint,
            "number": len(self.history.changes),
            "previous": self.history.changes[-1].digest if self.history.changes else "",
            "kind": kind,
            "party": party,
            "old_key": self.history.current.get(party, ""),
            "new_key": fresh.public_key if fresh else "",
            "passes": 7,
            "asker": asker,
            "proof": fresh.proof if fresh else "",
        }
        return KeyChange(**{**values, **other}).ask(self.now[asker].signer)

    def sign(self, change: KeyChange, *names: str) -> KeyChange:
        for name in names or ("carol", "bob", "alice"):
            change = change.consent(name, self.now[name].signer)
        return change


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def test_which_key_speaks_at_which_pass(world: World) -> None:
    bob = [world.history.ever("bob")[0], world.new["bob1"].public_key]
    once = world.history.follow(world.sign(world.change()))
    assert once.current == {**world.history.current, "bob": bob[1]}
    assert [once.at_pass("bob", number) for number in (0, 6, 7, 99)] == [bob[0], bob[0], bob[1], bob[1]]
    assert once.until("bob", 6) == bob  # the pass may run again
    assert once.until("bob", 7) == bob[1:]
    assert once.at_pass("carol", 99) == world.history.current["carol"]
    gone = world.history.follow(world.sign(world.change("revoke", "", "alice"), "carol", "alice"))
    assert "bob" not in gone.current
    assert (gone.at_pass("bob", 6), gone.at_pass("bob", 7)) == (bob[0], "")


Forge = Callable[[World], KeyChange]
FORGED: dict[str, tuple[Forge, str]] = {
    "by one alone": (lambda w: w.sign(w.change(), "bob"), "has not the consent of alice, carol"),
    "without one of the others": (lambda w: w.sign(w.change(), "carol", "bob"), "has not the consent of alice"),
    "consent with another's key": (
        lambda w: replace(w.sign(w.change()), consents={**(c := w.sign(w.change()).consents), "carol": c["bob"]}),
        "The consent of 'carol' .* is not signed with its key",
    ),
    "asked for with another's key": (
        lambda w: replace(w.sign(w.change()), request=w.change().ask(w.now["carol"].signer).request),
        "is not asked for by 'bob'",
    ),
    "the consent as a request": (
        lambda w: replace(w.sign(w.change()), request=w.sign(w.change()).consents["bob"]),
        "is not asked for by 'bob'",
    ),
    "of another agreement": (lambda w: w.sign(w.change(agreement="a" * 64)), "is of another agreement"),
    "too late": (lambda w: w.sign(w.change(number=1)), "does not follow from the 0 changes before it"),
    "after a change that never was": (lambda w: w.sign(w.change(previous="b" * 64)), "does not follow"),
    "about a key that is not his": (
        lambda w: w.sign(w.change(old_key="c" * 64)),
        "is about another key than 'bob' has",
    ),
    "a key of another party": (
        lambda w: w.sign(
            w.change("replace", "bob1", "alice", new_key=w.now["bob"].public_key, proof=w.now["bob"].public.proof),
            "carol",
            "alice",
        ),
        "brings a key that was used before",
    ),
    "of a stranger": (
        lambda w: w.sign(w.change("revoke", "", "alice", party="dave"), "bob", "carol", "alice"),
        "'dave' is not a party",
    ),
    "with the consent of the lost key": (
        lambda w: w.sign(w.change("replace", "bob1", "alice"), "bob", "carol", "alice"),
        "The consent of 'bob' .* not due",
    ),
    "signed first by who signs last": (
        lambda w: w.sign(w.change(), "alice"),
        "'alice' consents last .* bob, carol must before",
    ),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_change_is_refused(world: World, how: str) -> None:
    forge, sentence = FORGED[how]
    with pytest.raises(GovernError, match=sentence):
        world.history.follow(forge(world))


MEANINGLESS: dict[str, dict[str, Any]] = {
    "a rotation that another asks for": {"asker": "alice"},
    "a replacement that the party asks for": {"kind": "replace"},
    "a rotation without a key": {"new": ""},
    "a revocation with a key": {"kind": "revoke", "asker": "alice"},
    "a key without its proof": {"proof": ""},
    "a key with the proof of another name": {"party": "carol", "asker": "carol"},
    "before the first pass": {"passes": -1},
    "what would deceive a reader": {"reason": "old\x1b[2J\nnew key of bob: 0000"},
    "more than a person reads": {"reason": "x" * 201},
}


@pytest.mark.parametrize("what", MEANINGLESS)
def test_what_is_no_change_cannot_be_said(world: World, what: str) -> None:
    with pytest.raises((GovernError, InputError)):
        world.change(**MEANINGLESS[what])


def test_a_change_of_any_field_breaks_every_signature(world: World) -> None:
    complete = world.sign(world.change())
    for field, value in {"passes": 8, "reason": "other", "previous": "0" * 64, "number": 1}.items():
        changed = replace(complete, **{field: value})  # type: ignore[arg-type]
        assert not changed.is_asked_with(world.now["bob"].public_key), field
        assert not any(changed.is_consented_with(name, world.now[name].public_key) for name in world.now), field


def test_an_old_rotation_is_not_taken_twice_and_an_old_key_asks_for_nothing(world: World) -> None:
    first = world.sign(world.change())
    once = world.history.follow(first)
    with pytest.raises(GovernError, match="does not follow from the 1 changes before it: it was taken in before"):
        once.follow(first)
    later = World.__new__(World)
    later.now, later.new, later.history = world.now, world.new, once
    with pytest.raises(GovernError, match="is not asked for by 'bob'"):  # with the key that he had
        once.follow(later.sign(later.change(new="bob2")))
    later.now = {**world.now, "bob": world.new["bob1"]}
    assert len(once.follow(later.sign(later.change(new="bob2"))).changes) == 2
    back = later.change(new="bob2", new_key=world.now["bob"].public_key, proof=world.now["bob"].public.proof)
    with pytest.raises(GovernError, match="brings a key that was used before"):
        once.follow(later.sign(back))
    with pytest.raises(GovernError, match="takes effect before the change before it"):
        once.follow(later.sign(later.change(new="bob2", passes=6)))


def test_who_leaves_waits_for_no_other_change(world: World) -> None:
    leaving = world.sign(world.change("leave", "", "carol", party="carol"), "carol")
    once = world.history.follow(world.sign(world.change()))
    gone = once.follow(leaving)
    with pytest.raises(GovernError, match="'carol' has left"):
        gone.require_all()
    with pytest.raises(GovernError, match="comes after a party has left"):
        gone.follow(leaving)
    with pytest.raises(GovernError, match="has not the consent of carol"):
        world.history.follow(world.change("leave", "", "carol", party="carol"))


def test_none_but_the_key_that_speaks_now_is_a_member(world: World) -> None:
    once = world.history.follow(world.sign(world.change()))
    once.require_member(world.new["bob1"])
    with pytest.raises(GovernError, match="with 1 key changes, names another key for 'bob'"):
        once.require_member(world.now["bob"])
    gone = world.history.follow(world.sign(world.change("revoke", "", "alice"), "carol", "alice"))
    gone.require_member(world.now["bob"])  # it is his folder still
    with pytest.raises(GovernError, match="is not asked for by 'bob'"):
        gone.require_next(
            replace(world.change(number=1, previous=gone.changes[0].digest), old_key="").ask(world.now["bob"].signer)
        )
