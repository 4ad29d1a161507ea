"""While signatures travel: no party gets a name under a document that its person did not read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from govern.exchanging import Exchanging, met, sign
from modelkeep.core.errors import GovernError, PartyUnavailable
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.folder import Folder
from modelkeep.govern.identity import Identity
from modelkeep.govern.session.exchange import Exchange, describe, know_parties
from modelkeep.govern.wire.endpoint import Endpoint
from modelkeep.govern.wire.message import Message
from modelkeep.govern.wire.settings import Wire
from processes import wait_until


def show(folder: Folder, agreement: Agreement, to: str, values: dict[str, Any]) -> Message:
    """What changed software with this party's key says to another one, and the answer."""
    member = agreement.member(to)
    endpoint = Endpoint(folder.identity(), {to: member.public_key}, wire=Wire(), on_refused=lambda text: None)
    connection = endpoint.connect(to, member.address, 60.0)
    try:
        connection.send(Message("propose", {"agreement": values, "question": 0}))
        return connection.receive(60.0)
    finally:
        connection.close()


def test_two_documents_shown_to_two_parties_complete_with_none_and_both_learn_of_it(tmp_path: Path) -> None:
    draft, folders = met(tmp_path)
    other = replace(draft, policies={"bob": {"most": {"infer": 10**6}}})
    mallory = folders["alice"]
    shown = {"bob": draft, "carol": other}
    running = {name: Exchanging(folders[name], draft) for name in shown}
    try:
        for name, document in shown.items():
            signed = describe(document.sign(mallory.identity()))
            wait_until(lambda name=name, signed=signed: _reaches(mallory, draft, name, signed))  # type: ignore[misc]
            sign(folders[name], Agreement.read(folders[name].path / "proposed-alice.json"))
        # She shows each what the other has signed, with its signature, and then under the wrong document.
        bobs, carols = (show(mallory, draft, name, {}).header["agreement"] for name in shown)
        assert set(bobs["signatures"]) == {"alice", "bob"}
        show(mallory, draft, "carol", bobs)
        show(mallory, draft, "carol", {**carols, "signatures": bobs["signatures"]})
        wait_until(lambda: running["carol"].has_heard("'alice' shows another agreement"))
        wait_until(lambda: running["carol"].has_heard("The signature of 'bob' that came is not under this agreement"))
        wait_until(lambda: running["bob"].has_heard("'carol' shows another agreement"))  # they call on each other
    finally:
        for each in running.values():
            each.exchange.stop()
            each.thread.join()
    assert [each.outcome for each in running.values()] == [[None], [None]]
    for name, document in shown.items():
        kept = Agreement.read(folders[name].agreement)
        assert (kept.fingerprint, set(kept.signatures)) == (document.fingerprint, {"alice", name})
        with pytest.raises(GovernError, match="is not signed by"):
            folders[name].signed_agreement()


def _reaches(folder: Folder, agreement: Agreement, to: str, values: dict[str, Any]) -> bool:
    try:
        show(folder, agreement, to, values)
    except PartyUnavailable:  # it does not listen yet
        return False
    return True


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> tuple[Agreement, dict[str, Folder]]:
    return met(tmp_path_factory.mktemp("met"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("key of another", "another key of 'carol' than its own"),
        ("key of one's own", "names another key"),
        ("not a party", "is not a party"),
        ("no document", "This is no agreement"),
        ("a field more", "This is no agreement"),
    ],
)
def test_a_document_that_is_not_what_it_seems_is_refused(
    tmp_path: Path, parties: tuple[Agreement, dict[str, Folder]], change: str, sentence: str
) -> None:
    draft, folders = parties
    bob = folders["bob"]
    exchange = Exchange(bob, bob.identity(), know_parties(bob, []), lambda text: None)
    values: Any = describe(draft)
    peer = "alice"
    if change.startswith("key"):
        name = "carol" if change.endswith("another") else "bob"
        forged = Identity.at(tmp_path / "forged", name).public
        for party in values["parties"]:
            if party["name"] == name:
                party |= {"public_key": forged.public_key, "proof": forged.proof}
    elif change == "not a party":
        peer = "mallory"
    else:
        values = [] if change == "no document" else {**values, "more": 1}
    with pytest.raises(GovernError, match=sentence):
        exchange.take(values, peer)
    assert not list(bob.path.glob("proposed-*"))
    assert not bob.agreement.exists()
