"""Stolen, old, lost and forged keys, over the real wire: each attack is prevented, or found with who did it."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from govern.intruder import Intruder, intruding
from govern.key_folders import Parties
from govern.meeting import MOMENTUM, Meeting, meeting, same_bits
from modelkeep.core.errors import GovernError, PartyUnavailable, WireError
from modelkeep.core.signing import Signer
from modelkeep.govern.agreement.key_change import KeyChange
from modelkeep.govern.identity import Identity
from modelkeep.govern.ledger.audit import audit
from modelkeep.govern.ledger.entry import Entry
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.runs import train
from modelkeep.govern.session.service import serve
from modelkeep.govern.wire.endpoint import Endpoint
from modelkeep.govern.wire.settings import Wire


@pytest.fixture
def split(tmp_path: Path) -> Meeting:
    """Alice has the data, Bob the second piece, Carol the labels."""
    architecture, cuts, holders = "govern.networks:digit_network", ["2"], ["alice", "bob"]
    wire = Wire(deadline=20.0)
    return meeting(
        tmp_path, {}, architecture, "pictures", cuts, holders, "carol", recipe=MOMENTUM, wire=wire, checkpoint_every=3
    )


@contextmanager
def serving(split: Meeting, *names: str) -> Iterator[None]:
    """These parties, in threads of this process."""
    stop = threading.Event()
    with ExitStack() as stack:
        for name in names:
            party = stack.enter_context(Party(split.folders[name], data=[split.data]))
            thread = threading.Thread(target=serve, args=(party, stop))
            thread.start()
            stack.callback(thread.join)
        stack.callback(stop.set)
        yield


def rotate(split: Meeting, name: str) -> tuple[Identity, Identity]:
    """Give a party a new key, with the consent of all. The old identity, as a thief has it, and the new one."""
    old, parties = split.folders[name].identity(), Parties(split.agreement, split.folders)
    parties.sign(parties.rotation(name), *sorted(split.folders, reverse=True), *split.folders)
    return old, split.folders[name].identity()


def connect(split: Meeting, identity: Identity, to: str) -> None:
    """Speak on the wire as who has this identity."""
    members = split.folders[to].key_history().current
    endpoint = Endpoint(identity, members, wire=split.agreement.wire, on_refused=lambda text: None)
    endpoint.connect(to, split.agreement.member(to).address, 20.0).close()


def refusals(split: Meeting, name: str) -> str:
    """What the party has logged as refused."""
    return "\n".join(e.text for e in read_ledger(split.folders[name].ledger).events() if e.kind == "refused")


def forget_key(intruder: Intruder) -> None:
    """The intruder has a key of TLS for which the member's key vouches, and not that key: it signs with what it has."""
    intruder.identity = replace(intruder.identity, signer=Signer(Ed25519PrivateKey.generate()))


def test_a_stolen_key_of_tls_opens_a_session_and_no_more(split: Meeting) -> None:
    with serving(split, "bob", "carol"), intruding(split, "alice", "bob") as thief:
        forget_key(thief)
        told = thief.ask("open", {"agreement": split.agreement.fingerprint})
        assert told.kind == "answer"  # it learns where Bob stands, and can keep him busy
        settled = thief.ask("settle", {"standings": thief.standings(told, 0)})
        assert settled.kind == "refusal"
        asked = thief.ask("ask", {"pass": asdict(thief.a_pass())})
        assert "before the parties have settled" in asked.header["reason"]
    assert read_ledger(split.folders["bob"].ledger).committed == 0


def test_the_signature_of_a_key_of_tls_is_no_signature_of_the_party(tmp_path: Path) -> None:
    pair = meeting(
        tmp_path,
        {},
        "govern.networks:digit_network",
        "pictures",
        ["2"],
        ["alice", "bob"],
        "bob",
        wire=Wire(deadline=20.0),
    )
    with serving(pair, "bob"), intruding(pair, "alice", "bob") as thief:
        thief.open()
        forget_key(thief)
        of = thief.a_pass()
        begun = thief.ask("begin", {"pass": asdict(of), "consents": thief.consents(of)})
        assert "The consent of 'alice' to pass 0" in begun.header["reason"]
        assert "is not signed by 'alice'" in begun.header["reason"]
    assert not [e for e in read_ledger(pair.folders["bob"].ledger).events() if e.kind == "intent"]


def test_a_member_vouches_for_no_other_name(split: Meeting) -> None:
    carol = split.folders["carol"].identity()
    with serving(split, "bob"), pytest.raises(PartyUnavailable):
        connect(split, replace(carol, name="alice"), "bob")
    assert "issued by the key of 'carol' for another name: 'alice', 'alice'" in refusals(split, "bob")


def test_the_training_goes_on_with_a_new_key_and_the_old_one_gets_nowhere(split: Meeting) -> None:
    with serving(split, "bob", "carol"), split.alice() as leader:
        train(leader, updates=3)
    old, new = rotate(split, "bob")
    with serving(split, "bob", "carol"):
        with pytest.raises(WireError):
            connect(split, old, "carol")
        until = time.monotonic() + 10  # who is refused hears of it before it is written down
        while "certificate verify failed" not in refusals(split, "carol"):
            assert time.monotonic() < until
            time.sleep(0.02)
        connect(split, new, "carol")
        with split.alice() as leader:
            train(leader)
    assert same_bits(split.weights(), split.alone())
    ledgers = {name: folder.ledger for name, folder in split.folders.items()}
    found = audit(split.agreement, ledgers)
    assert found.sound, found
    del ledgers["bob"]  # what the others hold of him is enough to follow his keys
    assert audit(split.agreement, ledgers).sound

    # Who has stolen the old key writes an entry of Bob's anew, after the rotation.
    _sign_again(split.folders["bob"].ledger, "bob", old.signer, number=5)
    caught = audit(split.agreement, {name: folder.ledger for name, folder in split.folders.items()})
    assert ("signature", "bob", 5) in {(f.kind, f.party, f.number) for f in caught.findings}


def _sign_again(path: Path, party: str, signer: Signer, number: int) -> None:
    from modelkeep.govern.ledger.entry import seal
    from modelkeep.govern.passes import read

    with closing(sqlite3.connect(path)) as database, database:
        ((line,),) = database.execute("SELECT line FROM entries WHERE number = ?", (number,)).fetchall()
        entry = read(Entry, json.loads(line))
        forged = replace(entry, signature=seal("entry", entry.hash, party, signer))
        database.execute("UPDATE entries SET line = ? WHERE number = ?", (forged.line(), number))


def test_a_leader_with_the_old_key_of_another_cannot_speak_for_it(split: Meeting) -> None:
    """Alice has bought the key that Bob had, and shows Carol statements in his name."""
    old, new = rotate(split, "bob")
    with serving(split, "carol"), intruding(split, "alice", "carol") as mallory:
        told = mallory.ask("open", {"agreement": split.agreement.fingerprint})
        mine, theirs = mallory.standings(told, 0)
        outcomes = {}
        for signer in (old.signer, new.signer):
            values = mine["receipt"]["event"]["values"]
            bob = Intruder.state(_speaking_as(mallory, "bob", signer), "standing", values)
            standings = [mine, {"receipt": asdict(bob), "proof": []}, theirs]
            outcomes[signer.public_key] = mallory.ask("settle", {"standings": standings})
        assert "'standing' of 'bob' is not signed by 'bob'" in outcomes[old.public_key].header["reason"]
        assert outcomes[new.public_key].kind == "answer"


def _speaking_as(intruder: Intruder, name: str, signer: Signer) -> Intruder:
    other = object.__new__(Intruder)
    other.name, other.identity = name, replace(intruder.identity, name=name, signer=signer)
    return other


def test_a_revoked_key_that_still_talks_gets_no_answer(split: Meeting) -> None:
    from modelkeep.govern.key_changes import ask_for_change

    thief = split.folders["carol"].identity()
    parties = Parties(split.agreement, split.folders)
    revoked = ask_for_change(split.folders["bob"], "revoke", party="carol", reason="stolen")
    revoked = parties.sign(revoked, "alice", "bob")
    with pytest.raises(GovernError, match="The key of 'carol' was revoked"):
        Party(split.folders["bob"], data=[split.data])
    new = parties.new_key("carol")
    change = ask_for_change(split.folders["bob"], "replace", party="carol", new=new.public, reason="stolen")
    change = parties.sign(change, "alice", "bob")
    with serving(split, "bob"), pytest.raises(WireError):
        connect(split, thief, "bob")
    with pytest.raises(GovernError, match="does not follow"):
        parties.sign(ask_for_change(split.folders["carol"], "rotate", new=new.public), "bob")  # as the thief asks
    parties.sign(revoked, "carol")
    parties.sign(change, "carol")
    with serving(split, "bob", "carol"), split.alice() as leader:
        assert train(leader, updates=2).updates == 2
    assert audit(split.agreement, {name: folder.ledger for name, folder in split.folders.items()}).sound


# ---- in the ledgers


def log(parties: Parties, name: str, change: KeyChange) -> None:
    """Changed software logs a change without asking whether it holds."""
    folder = parties.folders[name]
    with Ledger(folder.ledger, name, folder.identity().signer) as ledger:
        ledger.take_key_change(change)


def found(parties: Parties) -> set[tuple[str, str]]:
    return {(finding.kind, finding.party) for finding in parties.audit().findings}


def test_a_change_that_one_party_logs_alone_is_found_with_its_name(tmp_path: Path) -> None:
    from modelkeep.govern.key_changes import ask_for_change

    parties = Parties.at(tmp_path)
    mine = Identity.at(tmp_path / "made up", "carol")
    change = ask_for_change(parties.folders["bob"], "replace", party="carol", new=mine.public, reason="made up")
    log(parties, "bob", change)
    assert found(parties) == {("key", "bob")}
    text = next(finding.text for finding in parties.audit().findings)
    assert "'bob' logs a key change that does not hold" in text
    assert "has not the consent of alice" in text


def test_who_completes_two_changes_for_one_place_is_found(tmp_path: Path) -> None:
    parties = Parties.at(tmp_path)
    one, other = parties.rotation("bob"), parties.rotation("carol")
    one, other = parties.sign(one, "carol"), parties.sign(other, "bob")
    alice = parties.folders["alice"].identity()
    one, other = (each.consent("alice", alice.signer) for each in (one, other))
    parties.sign(one, "bob")
    parties.sign(other, "carol")
    assert found(parties) == {("forked", "alice")}


def test_who_goes_on_with_the_old_key_after_it_signed_for_a_new_one_is_found(tmp_path: Path) -> None:
    parties = Parties.at(tmp_path)
    before = parties.folders["bob"].identity()
    parties.sign(parties.rotation("bob"), "carol", "alice", "carol")
    folders, parties.folders = parties.folders, dict(parties.folders)
    parties.go_on(2)  # Bob has not taken it in, and logs and consents with the key that he had
    assert folders["bob"].identity().public_key == before.public_key
    assert {("key", "bob"), ("signature", "bob")} <= found(parties)
