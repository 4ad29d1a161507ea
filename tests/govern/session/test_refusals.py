"""What somebody with a member's key can send: it is refused, and honest runs end with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from secrets import token_hex
from time import monotonic
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from govern.intruder import Intruder, crossing, ends, intruding
from govern.meeting import MOMENTUM, Meeting, meeting, same_bits
from govern.parties import Host
from modelkeep.core.errors import PartyUnavailable
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.passes import Pass
from modelkeep.govern.session.leader import Leader
from modelkeep.govern.session.runs import train
from modelkeep.govern.wire.message import MAGIC, Message
from modelkeep.govern.wire.settings import Wire

NO_TEXT: tuple[Any, ...] = (None, "", 5, [])
NO_NUMBER: tuple[Any, ...] = (-1, 10**30, "x", None, True, 1.5, [], {})
ENDLESS = replace(MOMENTUM, steps=1000)


@dataclass
class Victim:
    """Bob, who serves the whole time, and honest Alice, who goes on with the training after each attack."""

    split: Meeting
    leader: Leader

    @property
    def updates(self) -> int:
        return self.leader.party.pieces.step

    def events(self, host: str = "bob") -> list[str]:
        return [event.text for event in read_ledger(self.split.folders[host].ledger).events()]

    @contextmanager
    def attacked(self) -> Iterator[Intruder]:
        """Attack Bob; afterwards one more honest update must lead to the bits of a run that nobody has attacked."""
        with intruding(self.split) as intruder:
            yield intruder
        self.is_sound()

    def is_sound(self) -> None:
        before = self.leader.recoveries
        train(self.leader, updates=self.updates + 1)
        assert self.leader.recoveries == before
        assert same_bits(self.split.weights(), self.split.alone(updates=self.updates))


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory, hosts: dict[str, Host]) -> Iterator[Victim]:
    """The labels are Alice's, so Bob is in the middle: activations come, gradients come, both leave."""
    split = meeting(
        tmp_path_factory.mktemp("victim"),
        hosts,
        "govern.networks:digit_network",
        "pictures",
        ["2"],
        ["alice", "bob"],
        "alice",
        recipe=ENDLESS,
        wire=Wire(deadline=10.0, largest=2**20),
        checkpoint_every=3,
    )
    with split.up(), split.alice() as leader:
        train(leader, updates=4)
        yield Victim(split, leader)


def inference(intruder: Intruder, number: int, step: int, **other: Any) -> Pass:
    asked = {"purpose": "infer", "sink": "alice", "labels": "", "rows": 5, "data": "d" * 64, "parts": 1}
    return intruder.a_pass(number, step, **{**asked, **other})


# ---- what is asked for

ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "more rows than there can be": ({"purpose": "evaluate", "rows": 10**12}, "1 to 1,048,576 rows"),
    "no rows": ({"purpose": "infer", "rows": 0, "labels": ""}, "rows"),
    "rows before the first": ({"purpose": "evaluate", "first": -1}, "from row 0"),
    "rows beyond all data": ({"purpose": "evaluate", "first": 2**60}, "from row 0"),
    "many parts": ({"purpose": "evaluate", "parts": 10**9}, "in one part"),
    "another batch": ({"rows": 31}, "its rows must be 32"),
    "other parts": ({"parts": 7}, "its parts must be 1"),
    "a part of the batch": ({"first": 3}, "its first must be 0"),
    "more training": ({"step": 1000}, "1000 updates were agreed on"),
    "negative steps": ({"step": -1}, "updates were agreed on"),
    "other data": ({"data": "e" * 64}, "its data must be"),
    "other labels": ({"labels": "e" * 64}, "its labels must be"),
    "labels of another": ({"sink": "bob"}, "its sink must be 'alice'"),
    "data of another": ({"source": "bob"}, "the asker brings the inputs"),
    "data of another to infer": ({"purpose": "infer", "source": "bob", "labels": ""}, "the asker brings"),
    "answers for another": ({"purpose": "infer", "sink": "bob", "labels": ""}, "go to the asker"),
    "a stranger's answers": ({"purpose": "infer", "sink": "mallory", "labels": ""}, "a party takes the outputs"),
    "in another's name": ({"asker": "bob"}, "the session is led by 'alice'"),
    "data by another name": ({"purpose": "infer", "data": "x" * 10_000, "labels": ""}, "fingerprints"),
    "labels by another name": ({"purpose": "evaluate", "labels": "mine"}, "fingerprints"),
    "another agreement": ({"agreement": "a" * 64}, "under another agreement"),
    "a negative number": ({"number": -1}, "out of turn"),
    "a number far ahead": ({"number": 10**6}, "out of turn"),
    "a number that no database holds": ({"number": 10**30}, "out of turn"),
    "a number that was": ({"number": 0, "step": 1}, "has pass 0"),
    "another purpose": ({"purpose": "destroy"}, "no pass"),
    "a number in words": ({"number": "four"}, "no pass"),
    "something more": ({"hidden": 1}, "no pass"),
}


def test_what_was_not_agreed_on_is_not_consented_to(victim: Victim) -> None:
    with victim.attacked() as intruder:
        intruder.open()
        for name, (other, words) in ASKED.items():
            asked = {**asdict(intruder.a_pass(victim.updates, victim.updates)), **other}
            told = intruder.ask("ask", {"pass": asked})
            assert (told.kind, words in told.header["reason"]) == ("refusal", True), (name, told.header)
        for nonsense in (*NO_NUMBER, [[]], {"pass": {}}):
            assert intruder.ask("ask", {"pass": nonsense}).kind == "refusal"


# ---- what is begun


def forged(intruder: Intruder, of: Pass) -> list[Any]:
    theirs = replace(intruder.own_consent(of), party="bob")  # signed by the wrong key
    return [intruder.own_consent(of).values(), theirs.values()]


def for_another_pass(intruder: Intruder, of: Pass) -> list[Any]:
    other = inference(intruder, of.number, of.step)
    return [intruder.own_consent(of).values(), intruder.consents(other)[1]]


BEGUN: dict[str, tuple[Callable[[Intruder, Pass], Any], str]] = {
    "forged": (forged, "was used before, or a later one replaced it"),
    "for another pass": (for_another_pass, "was used before, or a later one replaced it"),
    "missing": (lambda mallory, of: [mallory.own_consent(of).values()], "only of alice"),
    "none": (lambda mallory, of: [], "only of none"),
    "twice": (lambda mallory, of: [mallory.own_consent(of).values()] * 2, "only of alice, alice"),
    "too many": (lambda mallory, of: [mallory.own_consent(of).values(), *mallory.consents(of)], "only of alice, alice"),
    "nonsense": (lambda mallory, of: [{"party": "bob"}], "no consent"),
    "no list": (lambda mallory, of: 7, "without the parties' consents"),
}


def test_pass_without_everybodys_own_consent_does_not_begin(victim: Victim) -> None:
    with victim.attacked() as intruder:
        intruder.open()
        of = intruder.a_pass(victim.updates, victim.updates)
        for name, (consents, words) in BEGUN.items():
            told = intruder.ask("begin", {"pass": asdict(of), "consents": consents(intruder, of)})
            assert words in told.header["reason"], (name, told)
            intruder.activations(of, crossing())
            assert any(words in text for text in victim.events())


def test_old_and_early_passes_do_not_begin(victim: Victim) -> None:
    updates = victim.updates
    recorded = list(read_ledger(victim.split.folders["bob"].ledger).entries())
    last = recorded[-1]
    old = [consent.values() for consent in last.consents]
    with victim.attacked() as intruder:
        intruder.open()
        assert "'bob' is at" in refusal(intruder.begin(last.of))  # replayed, without going back
        kept = intruder.ask("begin", {"pass": asdict(last.of), "consents": old})
        assert kept.kind == "refusal"
        assert "out of turn" in refusal(intruder.begin(intruder.a_pass(updates + 1, updates + 1)))
        told = refusal(intruder.begin(intruder.a_pass(updates, updates - 1)))
        assert f"{updates} are in the ledger before it" in told  # the same step twice
        older = checkpoints(intruder.open())[0]
        intruder.open(older)
        told = refusal(intruder.begin(intruder.a_pass(updates, older)))
        assert f"{updates} are in the ledger before it" in told


def refusal(told: Message) -> str:
    assert told.kind == "refusal"
    return str(told.header["reason"])


def checkpoints(told: Message) -> list[int]:
    return list(told.header["receipt"]["event"]["values"]["checkpoints"])


def test_old_consents_begin_nothing(victim: Victim) -> None:
    recorded = list(read_ledger(victim.split.folders["bob"].ledger).entries())
    with victim.attacked() as intruder:
        older = checkpoints(intruder.open())[0]
        intruder.open(older)
        entry = recorded[older]
        told = intruder.ask(
            "begin", {"pass": asdict(entry.of), "consents": [consent.values() for consent in entry.consents]}
        )
        assert "was given in another session" in refusal(told)


def test_committed_pass_cannot_be_made_again_with_other_inputs(victim: Victim) -> None:
    with victim.attacked() as intruder:
        step = checkpoints(intruder.open())[0]
        assert step < victim.updates
        intruder.open(step)
        recorded = list(read_ledger(victim.split.folders["bob"].ledger).entries())[step]
        intruder.begin(recorded.of)
        intruder.activations(recorded.of, crossing() + 1)
        assert "sent other activations than before" in intruder.trouble()


def test_pass_that_broke_off_cannot_be_made_again_with_other_inputs(victim: Victim) -> None:
    with victim.attacked() as intruder:
        intruder.open()
        of = inference(intruder, victim.updates, victim.updates)
        intruder.begin(of)
        intruder.activations(of, crossing(5), wants=[False])
        while intruder.hear().kind != "activations":
            pass
        intruder.open()
        intruder.begin(of)
        intruder.activations(of, crossing(5) + 1, wants=[False])
        assert "sent other activations than before" in intruder.trouble()
        assert f"No party has committed {of}." in victim.events()  # Bob had prepared the first attempt
        broken = f"{of} broke off after 0 messages had come and 0 had left."
        assert any(text.startswith(broken) for text in victim.events())


# ---- what crosses

NAN, INFINITY = crossing(5), crossing(5)
NAN[0, 0, 0, 0], INFINITY[4, 7, 7, 7] = float("nan"), -float("inf")
STATE = torch.default_generator.get_state()
CROSSED: dict[str, tuple[tuple[torch.Tensor, ...], dict[str, Any], str]] = {
    "nan": ((NAN,), {}, "hold NaN or infinity"),
    "infinity": ((INFINITY,), {}, "hold NaN or infinity"),
    "another type": ((crossing(5).double(),), {}, "Got ['torch.float64']"),
    "whole numbers": ((crossing(5).long(),), {}, "Got ['torch.int64']"),
    "another shape": ((torch.zeros(5, 8, 8, 9),), {}, "Got (5, 8, 8, 9)"),
    "more rows": ((crossing(6),), {}, "Got (6, 8, 8, 8)"),
    "fewer axes": ((torch.zeros(5, 512),), {}, "Got (5, 512)"),
    "nothing": ((), {"wants": []}, "Got []"),
    "too many": ((crossing(5), crossing(5)), {"wants": [False, False]}, "Got ['torch.float32', 'torch.float32']"),
    "a number": ((), {"numbers": {"0": 5}, "wants": []}, "Got ['int']"),
    "a number elsewhere": ((crossing(5),), {"numbers": {"9": 5}}, "not whole"),
    "numbers in a list": ((crossing(5),), {"numbers": [1]}, "not whole"),
    "no wants": ((crossing(5),), {"wants": []}, "whether a gradient is to come back"),
    "wants of something": ((crossing(5),), {"wants": 7}, "not whole"),
    "no random state": ((crossing(5),), {"random": True}, "Got []"),
    "a short random state": ((crossing(5), STATE[:9]), {"random": True}, "random generator"),
    "a random state of floats": ((crossing(5), torch.zeros(5056)), {"random": True}, "random generator"),
    "a random state of zeros": ((crossing(5), torch.zeros_like(STATE)), {"random": True}, "random generator"),
}


def test_tensors_that_do_not_fit_are_refused(victim: Victim) -> None:
    with victim.attacked() as intruder:
        for name, (tensors, header, words) in CROSSED.items():
            intruder.open()
            of = inference(intruder, victim.updates, victim.updates)
            intruder.begin(of)
            intruder.activations(of, *tensors, **{"wants": [False], **header})
            told = intruder.trouble()
            assert words in told, (name, told)


def test_tensors_out_of_place_are_not_looked_at(victim: Victim) -> None:
    places: list[dict[str, Any]] = [{"leg": leg} for leg in (0, 2, 3, 10**9, "1", 1.0, [1], *NO_NUMBER)]
    places += [{"part": part} for part in (1, 10**9, "0", False, 0.0, *NO_NUMBER)]
    places += [{"session": session} for session in (*NO_TEXT, "f" * 16)]
    with victim.attacked() as intruder:
        intruder.open()
        of = inference(intruder, victim.updates, victim.updates)
        intruder.begin(of)
        for place in places:
            intruder.activations(of, crossing(5), wants=[False], **place)
        said = {"pass": of.digest, "leg": 1, "part": 0, "numbers": {}, "wants": [], "random": False}
        intruder.say("gradients", said, crossing(5))
        before = len(victim.events())
        intruder.activations(of, crossing(5), wants=[False])  # in its place
        while intruder.hear().kind != "activations":
            pass
        assert before <= len(victim.events())
    assert sum("They are ignored" in text for text in victim.events()) >= len(places) - 5


def test_tensors_larger_than_agreed_end_the_connection(victim: Victim) -> None:
    with victim.attacked() as intruder:
        intruder.connection.wire = Wire(largest=2**30)  # as she would like it
        with suppress(PartyUnavailable):  # Bob may not even wait for the end of it
            intruder.say("activations", {}, torch.zeros(2**18 + 1))
        assert ends(intruder.connection)


def test_enormous_numbers_go_no_further(victim: Victim) -> None:
    with victim.attacked() as intruder:
        intruder.open()
        of = inference(intruder, victim.updates, victim.updates)
        intruder.begin(of)
        intruder.activations(of, crossing(5) + 3e38, wants=[False])
        assert "at 'bob' hold NaN or infinity" in intruder.trouble()


TAMPERED: dict[str, tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "activations of another shape": ("activations", lambda t: t[:, :4]),
    "activations with nan": ("activations", lambda t: t * float("nan")),
    "gradients of another type": ("gradients", lambda t: t.double()),
    "gradients of another shape": ("gradients", lambda t: t[:-1]),
    "gradients with infinity": ("gradients", lambda t: t + float("inf")),
    "no gradients": ("gradients", lambda t: t[:0]),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_one_bad_message_costs_one_recovery(case: str, victim: Victim) -> None:
    kind, change = TAMPERED[case]
    sent: list[Message] = []
    send = victim.leader.party.links.send

    def tampering(name: str, message: Message) -> None:
        if message.kind == kind and not sent:
            sent.append(message)
            message = replace(message, tensors=(change(message.tensors[0]), *message.tensors[1:]))
        send(name, message)

    victim.leader.party.links.send = tampering  # type: ignore[method-assign]
    try:
        before = victim.leader.recoveries
        train(victim.leader, updates=victim.updates + 1)
        assert (len(sent), victim.leader.recoveries) == (1, before + 1)
    finally:
        victim.leader.party.links.send = send  # type: ignore[method-assign]
    victim.is_sound()


# ---- what is said out of turn


def test_nothing_is_committed_that_was_not_prepared(victim: Victim) -> None:
    with victim.attacked() as intruder:
        intruder.open()
        for number in (victim.updates, victim.updates + 5, *NO_NUMBER):
            intruder.say("commit", {"number": number, "receipts": []})
            assert "commit" in intruder.trouble()
        of = intruder.a_pass(victim.updates, victim.updates)
        intruder.begin(of)
        intruder.say("commit", {"number": of.number, "receipts": []})
        assert "has not prepared it" in intruder.trouble()
        intruder.session = token_hex(8)
        told = intruder.ask("open", {"agreement": intruder.agreement.fingerprint})
        claimed = intruder.standings(told, victim.updates, committed=10**9)
        assert "1000000000 are committed, says 'alice'" in refusal(intruder.ask("settle", {"standings": claimed}))
        assert read_ledger(victim.split.folders["bob"].ledger).committed == victim.updates


def test_who_does_not_lead_is_not_obeyed(victim: Victim) -> None:
    with victim.attacked() as intruder:
        for kind in ("close", "begin", "settle"):
            told = intruder.ask(kind)
            assert (told.kind, "does not lead" in told.header["reason"]) == ("refusal", True)
        for session in (*NO_TEXT, "F" * 16, "f" * 17):
            told = intruder.ask("open", {"agreement": intruder.agreement.fingerprint, "session": session})
            assert "without saying which" in told.header["reason"]
        for agreement in (*NO_TEXT, "f" * 64):
            told = intruder.ask("open", {"agreement": agreement})
            assert "Nothing starts unless all hold the same one" in told.header["reason"]
        assert intruder.ask("ask", {"pass": asdict(intruder.a_pass())}).kind == "refusal"
        for kind in ("clear", "commit", "abort", "prepared", "trouble", "link", "", "open sesame"):
            intruder.say(kind)
        told = intruder.ask("open", {"agreement": intruder.agreement.fingerprint})
        for step in (777, *NO_NUMBER):
            assert intruder.ask("settle", {"standings": intruder.standings(told, step)}).kind == "refusal"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KINDS = ("open", "settle", "close", "ask", "link", "begin", "clear", "commit", "abort", "activations", "gradients")
SAID = (
    "session",
    "question",
    "agreement",
    "committed",
    "step",
    "pass",
    "consents",
    "number",
    "reason",
    "receipts",
    "standings",
)
FIELDS = (*SAID, "receipts", "standings", "leg", "part", "numbers", "wants", "random")


def test_nonsense_in_every_field_is_survived(victim: Victim) -> None:
    @settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
    @given(
        st.sampled_from((*KINDS, "answer", "refusal", "prepared", "trouble", "\x00")),
        st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4),
        st.booleans(),
    )
    def say(kind: str, header: dict[str, Any], leads: bool) -> None:
        with intruding(victim.split) as intruder:
            if leads:
                intruder.open()
                intruder.begin(inference(intruder, victim.updates, victim.updates))
            with suppress(PartyUnavailable):  # Bob has hung up
                intruder.say(kind, header, torch.zeros(2))
                intruder.say(kind, header)

    say()
    victim.is_sound()
    assert not [text for text in victim.events() if "could not go on" in text or "too much" in text]


def test_one_wrong_field_in_a_right_message_is_survived(victim: Victim) -> None:
    @settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
    @given(st.data())
    def say(data: st.DataObject) -> None:
        with intruding(victim.split) as intruder:
            intruder.open()
            of = inference(intruder, victim.updates, victim.updates)
            consents = intruder.consents(of)
            payload = {"pass": of.digest, "leg": 1, "part": 0, "numbers": {}, "wants": [False], "random": False}
            right: dict[str, dict[str, Any]] = {
                "ask": {"pass": asdict(of), "question": 99},
                "begin": {"pass": asdict(of), "consents": consents, "question": 99},
                "activations": payload,
                "gradients": payload,
                "close": {"question": 99},
            }
            kind = data.draw(st.sampled_from(sorted(right)))
            header = {**right[kind], "session": intruder.session}
            inner = next((each for each in header.values() if isinstance(each, dict) and each), header)
            changed = data.draw(st.sampled_from((header, inner, *consents)))
            changed[data.draw(st.sampled_from(sorted(changed)))] = data.draw(json_values)
            with suppress(PartyUnavailable):  # Bob has hung up
                if kind in ("activations", "gradients"):
                    told = intruder.ask("begin", {"pass": right["begin"]["pass"], "consents": consents})
                    if told.kind == "answer":  # otherwise a consent is what was changed
                        intruder.clear(told)
                intruder.say(kind, header, *([crossing(5)] if header.get("wants") == [False] else []))

    say()
    victim.is_sound()
    assert not [text for text in victim.events() if "could not go on" in text or "too much" in text]


def test_half_a_character_cannot_be_said(victim: Victim) -> None:
    with victim.attacked() as intruder:
        text = b'{"header":{"reason":"\\ud800"},"kind":"abort","tensors":[]}'
        intruder.connection._stream.write([MAGIC, len(text).to_bytes(4, "little"), bytes(8), text], monotonic() + 10)
        assert ends(intruder.connection)


def test_flood_of_nonsense_does_not_fill_the_disk(victim: Victim) -> None:
    before = len(victim.events())
    with victim.attacked() as intruder:
        for _ in range(400):
            intruder.say("nonsense")
        assert intruder.ask("close").kind == "refusal"
    assert len(victim.events()) - before < 250
