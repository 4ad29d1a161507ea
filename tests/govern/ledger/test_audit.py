"""The audit, attacked: whatever one party does to its ledger, with its own key too, is found and named."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from govern.ledger_runs import PARTIES, Run, make_agreement, make_identities, make_pass
from modelkeep.core.results import Result
from modelkeep.core.signing import Signer, canonical
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.ledger import Audit, Ledger, audit, read_ledger
from modelkeep.govern.passes import Consent, read_pass

PASSES = 8


class World:
    """An agreement, the keys, and untouched copies of the ledgers: by party, its lines as JSON values."""

    def __init__(
        self, folder: Path, agreement: Agreement, signers: dict[str, Signer], books: dict[str, list[Any]]
    ) -> None:
        self.folder, self.agreement, self.signers, self.books = folder, agreement, signers, books

    def audit(self, books: dict[str, list[Any]]) -> Audit:
        paths = {}
        for party, lines in books.items():
            paths[party] = self.folder / f"{party}.jsonl"
            paths[party].write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        return audit(self.agreement, paths)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("audit")
    identities = make_identities(folder)
    agreement = make_agreement(identities)
    signers = {name: identity.signer for name, identity in identities.items()}
    run = Run.at(folder, agreement.fingerprint, signers)
    for party, ledger in run.ledgers.items():
        ledger.event("began", f"{party} began")
    run.go_on(PASSES - 2)
    run.go_on(2, "evaluate")
    books = {}
    for party, ledger in run.ledgers.items():
        ledger.event("rested", "for a while", minutes=3)
        ledger.event("ended", f"{party} ended")
        ledger.export(folder / f"{party}.jsonl")
        books[party] = [json.loads(line) for line in (folder / f"{party}.jsonl").read_text().splitlines()]
    run.close()
    return World(folder, agreement, signers, books)


def entries(book: list[Any]) -> list[Any]:
    return [line["entry"] for line in book if "entry" in line]


def with_entries(book: list[Any], changed: list[Any]) -> list[Any]:
    return [book[0], *({"entry": entry} for entry in changed), *(line for line in book if "event" in line)]


def resealed(chain: list[Any], party: str, signer: Signer, *, consents: bool = False) -> list[Any]:
    """The chain hashed and signed again from the first entry on; with its party's own consents given anew, too."""
    hashes: list[str] = []
    for position, entry in enumerate(chain):
        entry["previous"] = hashes[-1] if hashes else ""
        for consent in entry["consents"] if consents else ():
            if consent["party"] == party:
                head = hashes[position - 2] if position >= 2 else ""
                given = Consent.give(read_pass(entry["of"]), party, head, signer)
                consent.update(head=given.head, signature=given.signature)
        body = {name: value for name, value in entry.items() if name != "signature"}
        hashes.append(sha256(canonical(body)).hexdigest())
        entry["signature"] = signer.sign(canonical({"entry": hashes[-1], "party": party}))
    return chain


def named(result: Audit, party: str, number: int) -> bool:
    """Whether a finding names the party and the number."""
    return any(
        party in (finding.party, finding.peer)
        and not finding.events
        and finding.number is not None
        and finding.until is not None
        and finding.number <= number <= finding.until
        for finding in result.findings
    )


def blamed(result: Audit) -> set[str]:
    """Who is named without a doubt."""
    return {finding.party for finding in result.findings if not finding.peer}


def tampered(
    world: World, party: str, change: Callable[[list[Any]], list[Any] | None], seal: str = "not"
) -> dict[str, list[Any]]:
    """All ledgers, the entries of one party changed, and sealed again or not."""
    books = copy.deepcopy(world.books)
    mine = entries(books[party])
    changed = change(mine) or mine
    if seal != "not":
        changed = resealed(changed, party, world.signers[party], consents=seal == "with consents")
    books[party] = with_entries(books[party], changed)
    return books


SEALS = ("not", "chain", "with consents")


def test_untouched_ledgers_give_no_finding(world: World) -> None:
    result = world.audit(copy.deepcopy(world.books))
    assert result.findings == ()
    assert result.sound
    assert result.exit_status == 0
    assert result.missing == ()
    assert [(one.party, one.entries, one.committed, one.events) for one in result.ledgers] == [
        (party, PASSES, PASSES, 3) for party in PARTIES
    ]
    assert result.passes() == {("train", "alice"): PASSES - 2, ("evaluate", "alice"): 2}


def test_sealing_an_untouched_chain_again_changes_nothing(world: World) -> None:
    """So that what the other tests find is the change, and not the seal."""
    for seal in SEALS:
        assert tampered(world, "bob", lambda chain: None, seal) == world.books


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to every number and string in JSON values."""
    if isinstance(value, dict):
        return [way for key, below in value.items() for way in leaves(below, (*path, key))]
    if isinstance(value, list):
        return [way for key, below in enumerate(value) for way in leaves(below, (*path, key))]
    return [path]


def other(way: tuple[Any, ...], value: Any, amount: int) -> Any:
    """Another value that may stand in the same place."""
    choices = {
        "purpose": ["train", "evaluate", "infer"],
        "what": ["activations", "gradients", "answers"],
        **{name: [*PARTIES, "mallory"] for name in ("party", "peer", "asker", "source", "sink")},
    }
    if way[-1] in choices:
        return [choice for choice in choices[way[-1]] if choice != value][amount % (len(choices[way[-1]]) - 1)]
    if isinstance(value, int):
        return value + amount
    if not value:
        return "0" * 64
    place = amount % len(value)
    return value[:place] + ("0" if value[place] != "0" else "1") + value[place + 1 :]


@settings(max_examples=200)
@given(st.data())
def test_any_change_of_any_field_is_found_and_named(world: World, data: st.DataObject) -> None:
    party = data.draw(st.sampled_from(PARTIES))
    number = data.draw(st.integers(0, PASSES - 1))
    seal = data.draw(st.sampled_from(SEALS))
    ways = leaves(entries(world.books[party])[number])
    if seal != "not":  # then these two are made anew anyway
        ways = [way for way in ways if way not in (("previous",), ("signature",))]
    if seal == "with consents":
        mine = sorted(PARTIES).index(party)
        ways = [way for way in ways if way not in (("consents", mine, "head"), ("consents", mine, "signature"))]
    way = data.draw(st.sampled_from(ways))
    amount = data.draw(st.integers(1, 70))

    def change(chain: list[Any]) -> None:
        place = chain[number]
        for key in way[:-1]:
            place = place[key]
        place[way[-1]] = other(way, place[way[-1]], amount)

    result = world.audit(tampered(world, party, change, seal))
    assert named(result, party, number), (result.findings, way)
    if number < PASSES - 2:  # what a later consent names is proof, not only a contradiction
        assert blamed(result) == {party}


@settings(max_examples=60)
@given(
    st.sampled_from(PARTIES),
    st.integers(0, PASSES - 1),
    st.sampled_from(SEALS),
    st.sampled_from(["delete", "insert", "swap", "replay", "renumber", "garbage", "drop consent", "drop crossing"]),
)
def test_whatever_is_done_to_whole_entries_is_found(
    world: World, party: str, number: int, seal: str, what: str
) -> None:
    def change(chain: list[Any]) -> None:
        entry = chain[number]
        if what == "delete":
            del chain[number]
        elif what == "insert":
            chain.insert(number, copy.deepcopy(entry))
        elif what == "swap":
            chain[number], chain[number + 1] = chain[number + 1], chain[number]
        elif what == "replay":  # an old entry stands for another pass
            entry.update(copy.deepcopy(chain[(number + 3) % PASSES]))
            entry["of"]["number"] = number
        elif what == "renumber":  # delete, and close the gap
            del chain[number]
            for position, left in enumerate(chain):
                left["of"]["number"] = position
        elif what == "garbage":
            entry["of"]["rows"] = None
        elif what == "drop consent":
            del entry["consents"][1]
        else:
            (entry["sent"] or entry["received"]).pop()

    assume(not (what == "garbage" and seal == "with consents"))  # nobody can sign a pass that is none
    assume(not (what == "swap" and number == PASSES - 1))
    result = world.audit(tampered(world, party, change, seal))
    assert named(result, party, number), result.findings
    if what != "drop crossing":
        assert blamed(result) == {party}


def test_a_signature_that_is_not_the_partys_is_found_even_under_an_unchanged_entry(world: World) -> None:
    def change(chain: list[Any]) -> None:
        chain[4]["signature"] = chain[3]["signature"]

    findings = world.audit(tampered(world, "bob", change)).findings
    assert [(f.kind, f.party, f.number, f.until) for f in findings] == [("signature", "bob", 4, 4)]


def test_a_party_that_tells_two_others_two_histories_is_found_without_its_ledger(world: World) -> None:
    def change(chain: list[Any]) -> None:
        of = read_pass(chain[-1]["of"])
        given = Consent.give(of, "carol", "f" * 64, world.signers["carol"])
        chain[-1]["consents"][2].update(head=given.head, signature=given.signature)

    books = tampered(world, "alice", change, "chain")
    del books["carol"]
    findings = world.audit(books).findings
    assert [(f.kind, f.party, f.number) for f in findings] == [("consent", "carol", PASSES - 1)]


@pytest.mark.parametrize("seal", SEALS)
def test_an_invented_entry_is_found(world: World, seal: str) -> None:
    """A pass that the others never saw, at the end, where no later consent and no committed entry speaks of it."""

    def change(chain: list[Any]) -> None:
        invented = copy.deepcopy(chain[-1])
        invented["of"]["number"] = PASSES
        chain.append(invented)

    result = world.audit(tampered(world, "bob", change, seal))
    assert named(result, "bob", PASSES)
    assert blamed(result) == {"bob"}


@pytest.mark.parametrize("left", range(PASSES))
def test_a_ledger_that_was_cut_off_is_found_through_the_others(world: World, left: int) -> None:
    books = tampered(world, "carol", lambda chain: chain[:left] or None, "chain")
    if left == 0:
        books["carol"] = with_entries(books["carol"], [])
    books["carol"][0]["committed"] = left  # its own account fits
    result = world.audit(books)
    assert [(f.kind, f.party, f.number, f.until) for f in result.findings] == [("missing", "carol", left, PASSES - 1)]


def test_a_ledger_that_says_that_more_is_committed_than_it_has_is_found(world: World) -> None:
    books = copy.deepcopy(world.books)
    books["alice"][0]["committed"] = 10**18
    result = world.audit(books)
    assert [(f.kind, f.party, f.number) for f in result.findings] == [("missing", "alice", PASSES)]


@settings(max_examples=40)
@given(st.sampled_from(PARTIES), st.integers(0, 2), st.data())
def test_any_change_of_an_event_is_found(world: World, party: str, number: int, data: st.DataObject) -> None:
    books = copy.deepcopy(world.books)
    event = [line["event"] for line in books[party] if "event" in line][number]
    way = data.draw(st.sampled_from(leaves(event)))
    place = event
    for key in way[:-1]:
        place = place[key]
    value = place[way[-1]]
    place[way[-1]] = value + 1 if isinstance(value, int | float) else other(("text",), value, 1)
    result = world.audit(books)
    assert result.findings
    assert all(finding.events and finding.party == party for finding in result.findings)
    assert any(finding.number is not None and finding.number <= number for finding in result.findings)


def test_events_left_out_in_the_middle_are_found(world: World) -> None:
    books = copy.deepcopy(world.books)
    del books["bob"][-2]
    result = world.audit(books)
    assert [(f.kind, f.party, f.number, f.events) for f in result.findings] == [("missing", "bob", 1, True)]
    assert "bob, event 1" in str(result)


def test_works_with_a_ledger_missing_and_says_so(world: World) -> None:
    books = {party: lines for party, lines in world.books.items() if party != "bob"}
    result = world.audit(books)
    assert result.sound
    assert result.missing == ("bob",)
    assert "not audited" in str(result)
    # What can be checked without it still is.
    changed = tampered(world, "alice", lambda chain: chain[2]["of"].update(rows=5), "with consents")
    del changed["bob"]
    assert named(world.audit(changed), "alice", 2)


def test_refuses_nothing_but_names_what_cannot_be_read(world: World, tmp_path: Path) -> None:
    paths = {party: world.folder / f"{party}.sqlite3" for party in PARTIES}
    paths["alice"] = tmp_path / "nowhere"
    paths["bob"] = tmp_path / "torn"
    paths["bob"].write_bytes((world.folder / "bob.sqlite3").read_bytes()[:9000])
    result = audit(world.agreement, paths)
    assert {(f.kind, f.party) for f in result.findings} >= {("unreadable", "alice"), ("unreadable", "bob")}
    assert "carol" not in {f.party for f in result.findings}
    assert "alice" in result.missing
    assert result.exit_status == 1


def test_a_ledger_of_another_party_key_or_agreement_is_found(world: World, tmp_path: Path) -> None:
    books = copy.deepcopy(world.books)
    books["alice"] = books["bob"]
    result = world.audit(books)
    assert ("identity", "alice", None) in {(f.kind, f.party, f.number) for f in result.findings}
    assert named(result, "alice", 0)

    stranger = Signer.at(tmp_path / "stranger.pem")
    books = copy.deepcopy(world.books)
    books["alice"][0]["public_key"] = stranger.public_key
    resealed(entries(books["alice"]), "alice", stranger)
    kinds = {f.kind for f in world.audit(books).findings if f.party == "alice"}
    assert kinds >= {"identity", "signature"}

    other_agreement = make_agreement(make_identities(world.folder), "another")
    kinds = {f.kind for f in audit(other_agreement, _paths(world)).findings}
    assert kinds == {"agreement"}


def _paths(world: World) -> dict[str, Path]:
    return {party: world.folder / f"{party}.sqlite3" for party in PARTIES}


def test_an_agreement_that_not_all_have_signed_is_found(world: World) -> None:
    signatures = {name: text for name, text in world.agreement.signatures.items() if name != "bob"}
    result = audit(replace(world.agreement, signatures=signatures), _paths(world))
    assert [finding.kind for finding in result.findings] == ["agreement"]
    assert "bob" in result.findings[0].text


def test_neighbours_who_lie_together_are_found_by_the_third_until_the_last_two_passes(world: World) -> None:
    """What is out of reach, said by a test: two who agree on what crossed between them in the last two passes."""

    def lie(number: int) -> dict[str, list[Any]]:
        books = copy.deepcopy(world.books)
        for party, side in (("alice", "sent"), ("bob", "received")):
            for crossing in entries(books[party])[number][side]:
                if crossing["what"] == "activations":
                    crossing["digest"] = "f" * 64
            resealed(entries(books[party]), party, world.signers[party])
        return books

    early = world.audit(lie(2))
    assert blamed(early) == {"alice", "bob"}
    assert named(early, "alice", 2)
    assert named(early, "bob", 2)
    assert world.audit(lie(PASSES - 1)).sound


def test_trailing_entries_that_nobody_committed_are_fine(world: World, tmp_path: Path) -> None:
    """As a fault leaves them: one prepared a pass, another has an older one of that number, the third has nothing."""
    run = Run.at(tmp_path, world.agreement.fingerprint, world.signers)
    run.go_on(3)
    train, evaluate = make_pass(run.agreement, 3), make_pass(run.agreement, 3, "evaluate")
    run.ledgers["alice"].prepare(train, run.consents(train), [], [])
    run.ledgers["bob"].prepare(evaluate, run.consents(evaluate), [], [])
    result = audit(world.agreement, {party: ledger.path for party, ledger in run.ledgers.items()})
    assert result.sound, str(result)
    run.prepare(train)
    run.ledgers["alice"].commit(3)  # the leader first; the others have not heard of it yet
    assert audit(world.agreement, {party: ledger.path for party, ledger in run.ledgers.items()}).sound
    run.close()


def test_audits_ledgers_while_their_parties_write(world: World, tmp_path: Path) -> None:
    run = Run.at(tmp_path, world.agreement.fingerprint, world.signers)
    paths = {party: ledger.path for party, ledger in run.ledgers.items()}
    writing = threading.Thread(target=run.go_on, args=(150,))
    writing.start()
    lengths = []
    while writing.is_alive():
        result = audit(world.agreement, paths)
        assert result.sound, str(result)
        lengths.append(result.ledgers[0].entries)
    writing.join()
    assert len(set(lengths)) > 1
    run.close()


def test_reads_sqlite_files_and_copies_alike(world: World) -> None:
    live = audit(world.agreement, _paths(world))
    copies = world.audit(copy.deepcopy(world.books))
    assert live.sound
    assert live.ledgers == copies.ledgers
    with Ledger(world.folder / "bob.sqlite3", "bob", world.signers["bob"]) as opened:
        assert opened.head(PASSES - 1) == live.ledgers[1].last
    assert read_ledger(world.folder / "bob.sqlite3").committed == PASSES


def test_prints_stores_and_draws_itself(world: World) -> None:
    result = world.audit(tampered(world, "alice", lambda chain: chain[2]["of"].update(rows=5), "chain"))
    text = str(result)
    assert "rewritten: alice, entry 2 to 5" in text
    assert "6 passes" in text
    again = Result.from_json(result.to_json())
    assert isinstance(again, Audit)
    assert again.findings == result.findings
    figure = result.draw()
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "train by alice",
        "evaluate by alice",
        "found with alice",
        "found with bob",
        "found with carol",
    ]
    assert world.audit(copy.deepcopy(world.books)).draw().axes[0].get_title(loc="left") == "No finding"
