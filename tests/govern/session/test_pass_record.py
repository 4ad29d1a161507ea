"""PassRecord: no step without the one before it at every party, each written down before its statement leaves."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from govern.asking import NOON, a_pass
from modelkeep.core.errors import ConsentRefused, GovernError, WireError
from modelkeep.core.signing import Signer
from modelkeep.govern.consent import ConsentDecision, ConsentState, Policy
from modelkeep.govern.ledger import Crossing, Ledger
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.passes import Consent, Pass
from modelkeep.govern.session.pass_record import PassRecord

NAMES = ("alice", "bob", "carol")


class Place:
    """One party's record, with its real ledger, key and consents."""

    def __init__(self, folder: Path, name: str, keys: dict[str, str], *policies: Policy) -> None:
        self.name, self.now = name, NOON
        self.signer = Signer.at(folder / f"{name}.pem")
        keys[name] = self.signer.public_key
        self.ledger = Ledger(folder / f"{name}.sqlite3", name, self.signer)
        self.consents = ConsentState(folder / f"{name}.consent")
        decision = ConsentDecision(policies, self.consents, name, self.ledger, clock=lambda: self.now)
        self.record = PassRecord(name, keys, self.ledger, decision, self.signer, 60.0, clock=lambda: self.now)
        self.record.enter("s")
        self.record.settled = True

    def kinds(self) -> list[str]:
        return [event.kind for event in self.ledger.events()]


Places = dict[str, Place]


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    keys: dict[str, str] = {}
    found = {name: Place(tmp_path, name, keys, Policy(most={"infer": 2})) for name in NAMES}
    yield found
    for place in found.values():
        place.ledger.close()
        place.consents.close()


def consent_to(places: Places, of: Pass) -> list[Consent]:
    return [place.record.consent(of) for place in places.values()]


def begin(places: Places, of: Pass) -> list[Receipt]:
    consents = consent_to(places, of)
    return [place.record.begin(of, consents) for place in places.values()]


def prepare(places: Places, of: Pass) -> list[Receipt]:
    intents = begin(places, of)
    for place in places.values():
        place.record.clear(intents)
    return [place.record.prepare((), (), {"loss": 1.5}) for place in places.values()]


def test_a_pass_from_its_consents_to_its_end(places: Places) -> None:
    prepared = prepare(places, a_pass())
    for place in places.values():
        place.record.commit(0, prepared)
        assert place.kinds() == ["intent", "prepared", "committed"]
        assert place.ledger.committed == 1
        others = {name for name in NAMES if name != place.name}
        name = place.ledger.attempts.last_committed(0)
        assert name is not None
        for kind in ("intent", "prepared"):
            assert {receipt.party for receipt in place.ledger.receipts.about(kind, name)} == others
        assert len(place.ledger.prove(0)) == 3
    stated = prepared[0].event.values
    assert stated["metrics"] == places["alice"].ledger.entry(0).metrics == {"loss": 1.5}
    assert stated["entry"] == places["alice"].ledger.entry(0).hash


def test_a_consent_that_was_checked_early_is_refused_all_the_same(places: Places) -> None:
    of = a_pass()
    consents = consent_to(places, of)
    forged = replace(consents[1], expires=consents[1].expires + 1)
    for early in (*consents, forged, replace(forged, party="mallory")):
        answer: Future[Consent] = Future()
        answer.set_result(early)
        places["alice"].record.check_early(of, answer)
    refused: Future[Consent] = Future()
    refused.set_exception(ConsentRefused("No."))
    places["alice"].record.check_early(of, refused)
    with pytest.raises(GovernError, match="not signed by 'bob'"):
        places["alice"].record.begin(of, [consents[0], forged, consents[2]])
    places["alice"].record.begin(of, consents)


def test_a_consent_is_signed_with_the_history_two_passes_before(places: Places) -> None:
    for number in range(3):
        consents = consent_to(places, a_pass(number))
        head = "" if number < 2 else places["bob"].ledger.head(number - 2)
        assert consents[1].head == head
        consents[1].check(a_pass(number), places["bob"].signer.public_key)
        for altered in (replace(consents[1], session="t"), replace(consents[1], expires=2**40)):
            with pytest.raises(GovernError, match="is not signed by 'bob'"):
                altered.check(a_pass(number), places["bob"].signer.public_key)
        prepared = prepare(places, a_pass(number))
        for place in places.values():
            place.record.commit(number, prepared)


def test_a_consent_holds_once(places: Places) -> None:
    of = a_pass(purpose="infer")
    consents = consent_to(places, of)
    bob = places["bob"].record
    bob.begin(of, consents)
    bob.give_up("", ())
    with pytest.raises(ConsentRefused, match="was used before"):
        bob.begin(of, consents)


def test_of_many_consents_to_one_number_only_the_last_holds(places: Places) -> None:
    given = [(of, consent_to(places, of)) for of in (a_pass(0, "infer", data=letter * 64) for letter in "abcdef")]
    bob = places["bob"].record
    for of, consents in given[:-1]:
        with pytest.raises(ConsentRefused, match="a later one replaced it"):
            bob.begin(of, consents)
    bob.begin(*given[-1])


def test_a_consent_expires(places: Places) -> None:
    consents = consent_to(places, a_pass())
    places["bob"].now += 60
    with pytest.raises(ConsentRefused, match="has expired"):
        places["bob"].record.begin(a_pass(), consents)
    places["carol"].record.begin(a_pass(), consents)  # by its own clock; nothing crosses without bob's intent


def test_a_consent_of_another_session_does_not_hold(places: Places) -> None:
    consents = consent_to(places, a_pass())
    bob = places["bob"].record
    bob.enter("t")
    with pytest.raises(WireError, match="before the parties have settled"):
        bob.consent(a_pass())
    bob.settled = True
    with pytest.raises(ConsentRefused, match="was given in another session"):
        bob.begin(a_pass(), consents)
    mixed = [consents[0], bob.consent(a_pass()), consents[2]]
    with pytest.raises(ConsentRefused, match=r"The consent of 'alice' .* was given in another session"):
        bob.begin(a_pass(), mixed)


def test_what_is_allowed_is_looked_at_again_when_it_begins(places: Places) -> None:
    bob = places["bob"]
    begin(places, a_pass(0, "infer", data="a" * 64))
    bob.record.give_up("", ())
    consents = consent_to(places, a_pass(0, "infer", data="b" * 64))
    bob.consents.withdraw("enough", "infer")
    with pytest.raises(ConsentRefused, match="enough"):
        bob.record.begin(a_pass(0, "infer", data="b" * 64), consents)
    bob.consents.restore()
    bob.record.begin(a_pass(0, "infer", data="b" * 64), consents)
    bob.record.give_up("", ())
    with pytest.raises(ConsentRefused, match="2 passes to infer were begun, and 2 are allowed"):  # though none was made
        bob.record.consent(a_pass(0, "infer", data="c" * 64))


def test_nothing_crosses_without_every_partys_intent(places: Places) -> None:
    intents = begin(places, a_pass())
    bob = places["bob"].record
    for some in ([], intents[:2], [*intents[:2], intents[1]], [*intents, intents[0]]):
        with pytest.raises(WireError, match="Every party must state 'intent'"):
            bob.clear(some)
    forged = replace(intents[2], event=replace(intents[2].event, text="changed"))
    with pytest.raises(WireError, match="'carol' is not signed by 'carol'"):
        bob.clear([*intents[:2], forged])
    assert not bob.cleared
    with pytest.raises(WireError, match="not every party has stated"):
        bob.prepare((), (), {})
    bob.clear(intents)
    assert bob.cleared


def test_the_intent_of_an_attempt_before_does_not_clear_the_next(places: Places) -> None:
    """Carol withdraws; the leader shows the intent that she stated when it gave the pass up for the first time."""
    old = begin(places, a_pass(purpose="infer"))
    for place in places.values():
        place.record.give_up("", ())
    carol = consent_to(places, a_pass(purpose="infer"))[2]
    places["carol"].consents.withdraw("enough")
    again = {name: place for name, place in places.items() if name != "carol"}
    consents = [*(place.record.consent(a_pass(purpose="infer")) for place in again.values()), carol]
    intents = [place.record.begin(a_pass(purpose="infer"), consents) for place in again.values()]
    with pytest.raises(WireError, match=r"'carol' must state 'intent' about this attempt\. .* of another"):
        places["bob"].record.clear([*intents, old[2]])


def test_a_pass_does_not_complete_after_a_withdrawal(places: Places) -> None:
    intents = begin(places, a_pass())
    for place in places.values():
        place.record.clear(intents)
    places["carol"].consents.withdraw("enough", "train")
    with pytest.raises(ConsentRefused, match="enough"):
        places["carol"].record.prepare((), (), {})
    prepared = [places[name].record.prepare((), (), {}) for name in ("alice", "bob")]
    for receipts in (prepared, [*prepared, intents[2]]):
        with pytest.raises(WireError, match="must state 'prepared'"):
            places["bob"].record.commit(0, receipts)
    assert [place.ledger.committed for place in places.values()] == [0, 0, 0]


def test_what_came_is_remembered_when_another_pass_takes_the_place(places: Places) -> None:
    came = Crossing("alice", "activations", 0, 0, "d" * 64, 8)
    of, other = a_pass(0, "infer", data="a" * 64), a_pass(0, "infer", data="b" * 64)
    for asked in (of, other):
        intents = begin(places, asked)
        for place in places.values():
            place.record.clear(intents)
            place.record.prepare((), [came], {})
            place.record.give_up("", ())
            with pytest.raises(WireError, match="before the parties have settled"):
                place.record.consent(other)
            place.record.settled = True
    assert places["bob"].ledger.entry(0).of == other
    assert places["bob"].ledger.attempts.brought(of) == [came]


def test_two_statements_under_one_number_are_found_out(places: Places) -> None:
    intents = begin(places, a_pass())
    bob = places["bob"]
    bob.record.clear(intents)
    carol = places["carol"].signer
    event = intents[2].event
    other = event.sign(event.number, 1.0, "standing", "", {}, previous="", party="carol", signer=carol)
    with pytest.raises(GovernError, match="'carol' has signed two different statements with the number 0"):
        bob.ledger.receipts.keep([Receipt("carol", other)])


def test_what_is_given_up_stays_in_the_account(places: Places) -> None:
    begin(places, a_pass(purpose="infer"))
    places["bob"].record.give_up("The leader is gone.", ())
    assert places["bob"].kinds() == ["intent", "given up"]
    assert "The leader is gone." in places["bob"].ledger.events()[1].text
    assert places["bob"].ledger.attempts.unended() == []
    places["alice"].record.give_up("", ())
