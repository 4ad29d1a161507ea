"""A changed leader with a real key: no pass without everybody's live consent, none off the record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest
import torch

from govern.intruder import crossing
from govern.malice.mallory import Mallory, mallory, reason
from govern.meeting import MOMENTUM, Meeting, meeting, same_bits
from govern.parties import Host
from modelkeep.core.signing import canonical
from modelkeep.govern.agreement.limits import Limits
from modelkeep.govern.consent import ConsentState
from modelkeep.govern.ledger.audit import Audit, audit
from modelkeep.govern.ledger.entry import Event
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.session.runs import train
from modelkeep.govern.wire.settings import Wire

MOST = 6
LIMITS = Limits(magnitude=1e4, least_rows=8, consent_seconds=600)


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory, hosts: dict[str, Host]) -> Iterator[Meeting]:
    """Bob holds the second piece, Carol only the labels. They have trained together, and serve."""
    made = meeting(
        tmp_path_factory.mktemp("malice"),
        hosts,
        "govern.networks:digit_network",
        "pictures",
        ["2"],
        ["alice", "bob"],
        "carol",
        recipe=MOMENTUM,
        wire=Wire(deadline=20.0),
        checkpoint_every=2,
        limits=LIMITS,
        policies={"bob": {"most": {"infer": MOST}}},
    )
    with made.up():
        with made.alice() as leader:
            train(leader)
        assert same_bits(made.weights(), made.alone())
        yield made


@pytest.fixture
def leader(split: Meeting) -> Iterator[Mallory]:
    with mallory(split) as found:
        yield found


@pytest.fixture
def carol(split: Meeting) -> Iterator[ConsentState]:
    """Carol's consents, as the command line opens them; everything is restored afterwards."""
    state = ConsentState(split.folders["carol"].consent)
    yield state
    state.restore()
    state.close()


def events(split: Meeting, name: str) -> list[Event]:
    return list(read_ledger(split.folders[name].ledger).events())


def found_by_audit(split: Meeting) -> Audit:
    return audit(split.agreement, {name: folder.ledger for name, folder in split.folders.items()})


def answered(leader: Mallory) -> bool:
    """Whether Bob answers activations with what his piece makes of them."""
    while True:
        told = leader.bob.hear()
        if told.kind in ("activations", "trouble"):
            return told.kind == "activations"


# ---- consent


def test_after_a_withdrawal_old_consents_are_worth_nothing(leader: Mallory, carol: ConsentState) -> None:
    """V1: many consents for one number are collected; then the party that no tensor passes by withdraws."""
    leader.meet()
    given = [(of, leader.consents(of)) for of in map(leader.inference, "bcdefa")]
    carol.withdraw("enough")
    of, consents = given.pop()
    begun = leader.begin(of, consents)
    assert "'carol' has withdrawn its consent to infer: enough" in reason(begun["carol"])
    leader.clear({"bob": begun["bob"], "carol": begun["bob"]})  # Bob's intent in the place of Carol's
    assert "Every party must state 'intent'" in leader.bob.trouble()
    leader.bob.activations(of, crossing(5), wants=[False])
    for old, theirs in given:
        assert "a later one replaced it" in reason(leader.begin(old, theirs, "bob")["bob"])
        leader.bob.activations(old, crossing(5), wants=[False])
    ignored = [event for event in events(leader.split, "bob") if "of a pass that has not begun" in event.text]
    assert len(ignored) >= len(given)


def test_two_old_consents_cannot_take_turns(leader: Mallory) -> None:
    """V1: the same two consents, again and again, each pass given up before it is committed."""
    leader.meet()
    of = leader.inference("a")
    consents = leader.consents(of)
    leader.clear(leader.begin(of, consents))
    leader.bob.activations(of, crossing(5), wants=[False])
    assert answered(leader)
    leader.bob.say("abort", {"reason": "again"})
    told = reason(leader.begin(of, consents, "bob")["bob"])
    assert "was used before" in told or "before the parties have settled" in told  # if Bob had prepared it by then


def test_a_pass_begins_only_after_the_parties_have_settled(leader: Mallory) -> None:
    leader.open()
    told = leader.bob.ask("ask", {"pass": asdict(leader.inference("a"))})
    assert "before the parties have settled" in reason(told)


def test_an_intent_of_another_attempt_clears_nothing(leader: Mallory, carol: ConsentState) -> None:
    leader.meet()
    of = leader.inference("a")
    first = leader.begin(of, leader.consents(of))
    for each in leader.to.values():
        each.say("abort", {"reason": "again"})
    consents = leader.consents(of)
    carol.withdraw("enough")
    again = leader.begin(of, consents, "bob")
    leader.clear({"bob": again["bob"], "carol": first["carol"]}, "bob")
    assert "'carol' must state 'intent' about this attempt" in leader.bob.trouble()


def test_a_pass_that_is_given_up_counts_and_is_on_the_record(leader: Mallory) -> None:
    """Six different inferences are allowed; none is ever committed."""
    for letter in "abcdef":  # other tests here ask for "a" alone, before this one or after it
        leader.meet()
        of = leader.inference(letter)
        leader.run(of)
        leader.bob.activations(of, crossing(5), wants=[False])
        assert answered(leader)
    leader.meet()
    told = leader.bob.ask("ask", {"pass": asdict(leader.inference("9"))})
    assert f"{MOST} passes to infer were begun, and {MOST} are allowed" in reason(told)
    again = leader.inference("f")  # one of those, with other inputs
    leader.run(again)
    leader.bob.activations(again, crossing(5) + 1, wants=[False])
    assert "sent other activations than before" in leader.bob.trouble()
    found = found_by_audit(leader.split)
    numbers = [end for end in found.given_up if (end.party, end.purpose) == ("bob", "infer")]
    assert len(numbers) >= MOST


# ---- sessions


def test_parties_that_have_withdrawn_do_not_go_back(leader: Mallory, carol: ConsentState) -> None:
    """V3: a leader without newer checkpoints makes the others go back, and theirs would be deleted."""
    kept = sorted(leader.split.folders["carol"].checkpoints.glob("step-*"))
    carol.withdraw("enough")
    told = leader.meet(step=4, checkpoints=[4])
    assert "does not go back to the state after 4 updates" in reason(told["carol"])
    assert sorted(leader.split.folders["carol"].checkpoints.glob("step-*")) == kept
    carol.restore()
    train_again(leader.split)  # Bob, who had not withdrawn, did go back


def test_what_is_rewound_is_archived(leader: Mallory) -> None:
    folder = leader.split.folders["carol"].checkpoints
    newest = sorted(folder.glob("step-*"))[-1]
    content = newest.read_bytes()
    assert leader.meet(step=4, checkpoints=[4])["carol"].kind == "answer"
    archived = [path.read_bytes() for path in (folder / "archive").iterdir()]
    assert content in archived
    said = next(event for event in reversed(events(leader.split, "carol")) if event.kind == "rewound")
    assert said.values["step"] == 4
    train_again(leader.split)


def train_again(split: Meeting) -> None:
    """Honest Alice leads: all go the same way again, and end with the same bits."""
    with split.alice() as honest:
        assert train(honest).updates == 6
    assert same_bits(split.weights(), split.alone())


def test_what_all_have_committed_is_not_for_a_leader_to_say(leader: Mallory) -> None:
    """A forged `settle`: it claims a pass that nobody has prepared, or another party's standing."""
    committed = read_ledger(leader.split.folders["bob"].ledger).committed
    said = reason(leader.meet(committed=committed + 1)["bob"])  # whether or not Bob has prepared one
    assert "'alice' does not prove that pass" in said or "are committed, says 'alice'" in said
    told = leader.open()
    standings = leader.standings(told)
    forged = asdict(leader.bob.state("standing", told["carol"].header["receipt"]["event"]["values"]))
    standings[2] = {"receipt": {**forged, "party": "carol"}, "proof": []}
    assert "is not signed by 'carol'" in reason(leader.bob.ask("settle", {"standings": standings}))


def test_a_session_opens_once(leader: Mallory) -> None:
    """Otherwise what Carol stated the first time could be shown to Bob as if it were where she stands now."""
    old = leader.open()["carol"].header
    again = leader.bob.ask("open", {"agreement": leader.bob.agreement.fingerprint})
    assert "opens a session that was open before" in reason(again)
    standings = leader.standings(leader.open())
    standings[2] = {"receipt": old["receipt"], "proof": old["proof"]}
    assert "Its statement is of another session" in reason(leader.bob.ask("settle", {"standings": standings}))


def test_two_passes_cannot_take_turns_after_they_were_prepared(leader: Mallory) -> None:
    """Each is given up after Bob has prepared it, in the same session, and the other takes its place."""
    leader.meet()
    first, second = leader.inference("a"), leader.inference("b")
    leader.run(first)
    leader.bob.activations(first, crossing(5), wants=[False])
    assert answered(leader)
    while leader.bob.hear().kind != "prepared":
        pass
    leader.bob.say("abort", {"reason": "again"})
    told = leader.begin(second, [], "bob")["bob"]
    assert "before the parties have settled" in reason(told)
    leader.meet()
    leader.run(second)
    leader.bob.activations(second, crossing(5), wants=[False])
    assert answered(leader)
    while leader.bob.hear().kind != "prepared":
        pass
    leader.meet()
    leader.run(first)  # whose entry the second one has replaced
    leader.bob.activations(first, crossing(5) + 1, wants=[False])
    assert "sent other activations than before" in leader.bob.trouble()


def test_a_pass_that_only_one_party_has_prepared_is_not_committed(leader: Mallory) -> None:
    leader.meet()
    of = leader.inference("a")
    leader.run(of)
    leader.bob.activations(of, crossing(5), wants=[False])
    while (told := leader.bob.hear()).kind != "prepared":
        pass
    theirs = told.header["receipt"]
    mine = asdict(leader.bob.state("prepared", theirs["event"]["values"]))
    committed = read_ledger(leader.split.folders["bob"].ledger).committed
    leader.bob.say("commit", {"number": of.number, "receipts": [mine, theirs]})
    assert "Every party must state 'prepared'" in leader.bob.trouble()
    forged = {**asdict(leader.bob.state("prepared", theirs["event"]["values"])), "party": "carol"}
    leader.meet()
    assert read_ledger(leader.split.folders["bob"].ledger).committed == committed
    leader.bob.say("commit", {"number": of.number, "receipts": [mine, theirs, forged]})
    assert "commit" in leader.bob.trouble()


# ---- what crosses


def test_numbers_beyond_what_was_agreed_are_refused_with_the_senders_name(leader: Mallory) -> None:
    leader.meet()
    of = leader.inference("a")
    leader.run(of)
    leader.bob.activations(of, crossing(5) + 1e6, wants=[False])
    told = leader.bob.trouble()
    assert "from 'alice' hold numbers up to 1e+06; the agreement allows 1e+04 at most" in told
    assert any("from 'alice' hold numbers up to 1e+06" in event.text for event in events(leader.split, "bob"))


def test_dropout_does_not_draw_from_the_memory_of_the_process(leader: Mallory) -> None:
    """A state of the random generator in which more is left than there is: the masks would show what lies behind it."""
    leader.meet()
    of = leader.inference("a")
    leader.run(of)
    state = torch.Generator().manual_seed(1).get_state()
    state.view(torch.int32)[torch.tensor([2, 4])] = 624
    leader.bob.activations(of, crossing(5), state, wants=[False], random=True)
    assert "624 of its 624 words are left, and the next is number 624" in leader.bob.trouble()


def test_single_rows_are_not_judged(leader: Mallory) -> None:
    leader.meet()
    one = leader.inference("a", rows=1, purpose="evaluate", sink="carol", labels="e" * 64)
    assert "at least 8 rows are judged together" in reason(leader.carol.ask("ask", {"pass": asdict(one)}))


def test_a_pass_that_has_not_begun_takes_no_memory(leader: Mallory, hosts: dict[str, Host]) -> None:
    """V6: 40 MB, again and again, for a pass that never begins."""
    leader.meet()
    of = leader.inference("a")
    before = hosts["bob"].resident()
    for _ in range(8):
        leader.bob.activations(of, torch.zeros(10, 2**20), wants=[False])
    leader.bob.ask("ask", {"pass": asdict(of)})  # all of it was read by then
    assert hosts["bob"].resident() - before < 20e6
    ignored = [event for event in events(leader.split, "bob") if "of a pass that has not begun" in event.text]
    assert len(ignored) >= 8


# ---- the record


def test_a_leader_that_shows_two_accounts_is_found_out(leader: Mallory) -> None:
    leader.meet()
    values = {"session": leader.bob.session}
    one, other = (leader.bob.state("note", {**values, "to": name}) for name in ("bob", "carol"))
    other = replace(other, event=resign(leader, other.event, one.event.number))
    ledgers = {}
    for name, receipt in (("bob", one), ("carol", other)):
        copy = leader.split.folders[name].path / "with-receipt.jsonl"
        read_ledger(leader.split.folders[name].ledger).export(copy)
        with copy.open("a") as file:
            file.write(canonical({"receipt": asdict(receipt)}).decode() + "\n")
        ledgers[name] = copy
    ledgers["alice"] = leader.split.folders["alice"].ledger
    found = audit(leader.split.agreement, ledgers).findings
    assert any((finding.kind, finding.party) == ("forked", "alice") for finding in found)


def resign(leader: Mallory, event: Event, number: int) -> Event:
    signer = leader.bob.identity.signer
    return Event.sign(number, 0.0, event.kind, "", event.values, previous="", party="alice", signer=signer)


def test_what_mallory_stated_and_did_not_write_down_is_found(leader: Mallory) -> None:
    """Bob and Carol keep her standings and intents; Alice's own ledger has none of them."""
    leader.meet()
    found = found_by_audit(leader.split).findings
    assert {finding.party for finding in found} == {"alice"}
    assert {finding.kind for finding in found} == {"rewritten"}
