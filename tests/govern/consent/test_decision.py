"""ConsentDecision: counts, rates, approvals and withdrawals, replays and threads, over a real ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from govern.asking import NOON, Party, a_pass
from modelkeep.core.errors import ConsentPending, ConsentRefused, InputError
from modelkeep.govern.consent import ConsentState, Policy, Window
from modelkeep.govern.consent.state import bucket
from modelkeep.govern.passes import Pass, Purpose


@pytest.fixture
def bob(tmp_path: Path) -> Iterator[Party]:
    party = Party(tmp_path)
    yield party
    party.close()


def allows(decide: Callable[[Pass], None], of: Pass) -> bool:
    try:
        decide(of)
    except ConsentRefused:
        return False
    return True


def test_all_policies_must_allow_a_pass(bob: Party) -> None:
    lax, strict = Policy(), Policy(purposes=("infer",))
    assert allows(bob.by(lax).decide, a_pass())
    assert not allows(bob.by(lax, strict).decide, a_pass())
    assert not allows(bob.by(strict, lax).decide, a_pass())


def test_so_many_passes_for_a_purpose_and_no_more(bob: Party) -> None:
    decision = bob.by(Policy(most={"train": 2}))
    for number in range(2):
        decision.decide(a_pass(number))
        bob.log(a_pass(number))
    with pytest.raises(ConsentRefused, match="2 passes to train were begun, and 2 are allowed") as refused:
        decision.decide(a_pass(2))
    assert not isinstance(refused.value, ConsentPending)
    decision.decide(a_pass(2, "infer"))
    assert not allows(bob.by(Policy(most={"infer": 0})).decide, a_pass(2, "infer"))


def test_a_replayed_pass_is_not_counted_again(bob: Party) -> None:
    decision = bob.by(Policy(most={"train": 1}))
    bob.log(a_pass(0), commit=False)
    decision.decide(a_pass(0))
    bob.ledger.commit(0)
    decision.decide(a_pass(0))
    bob.now = NOON + 3600
    with pytest.raises(ConsentRefused, match="The next begin"):  # the rules without memory hold for it too
        bob.by(Policy(windows=(Window(("mon",), "12:00", "13:00"),))).decide(a_pass(0))


def test_a_pass_that_takes_another_ones_place_counts_in_its_place(bob: Party) -> None:
    decision = bob.by(Policy(most={"train": 2}))
    bob.log(a_pass(0))
    bob.log(a_pass(1), commit=False)
    decision.decide(a_pass(1, data="f" * 64))
    bob.ledger.commit(1)
    with pytest.raises(ConsentRefused, match=r"has pass 1 \(train, asked by alice\) with other details"):
        decision.decide(a_pass(1, data="f" * 64))


def test_passes_that_broke_off_count_unless_they_are_made_again(bob: Party) -> None:
    decision = bob.by(Policy(most={"infer": 3, "train": 1}))
    for data in "abc":  # each has begun, and then its leader let it break off
        decision.decide(a_pass(0, "infer", data=data * 64))
        bob.begin(a_pass(0, "infer", data=data * 64))
    with pytest.raises(ConsentRefused, match="3 passes to infer were begun, and 3 are allowed"):
        decision.decide(a_pass(0, "infer", data="d" * 64))
    decision.decide(a_pass(0, "infer", data="b" * 64))  # again, after the others
    bob.log(a_pass(0, "infer", data="b" * 64))
    assert not allows(bob.by(Policy(most={"infer": 3})).decide, a_pass(1, "infer"))  # in another process too
    assert allows(bob.by(Policy(most={"infer": 4})).decide, a_pass(1, "infer"))
    bob.begin(a_pass(1))
    bob.log(a_pass(1, "evaluate"))
    decision.decide(replace(a_pass(2), step=1))  # the same step of the training, under another number


def test_an_attempt_in_which_the_process_ended_counts_by_itself(bob: Party) -> None:
    decision = bob.by(Policy(most={"infer": 2, "train": 1}))
    for purpose in ("infer", "train"):
        bob.ledger.attempts.lose(bob.begin(a_pass(0, purpose)).name)
    decision.decide(a_pass(0, "infer"))  # nobody knows what the first attempt brought
    bob.begin(a_pass(0, "infer"))
    assert not allows(decision.decide, a_pass(1, "infer"))
    decision.decide(a_pass(0))  # what is trained on follows from the step


def test_passes_under_way_are_waited_for_at_the_limit(bob: Party) -> None:
    decision = bob.by(Policy(most={"train": 2}))
    decision.decide(a_pass(0))
    decision.decide(a_pass(1))  # while pass 0 runs
    with pytest.raises(ConsentPending, match="0 passes to train were begun, 2 are allowed, and 2 before it"):
        decision.decide(a_pass(2))
    bob.log(a_pass(0, "infer"))
    bob.log(a_pass(1))
    decision.decide(a_pass(2))


@given(
    purposes=st.lists(st.sampled_from(["train", "infer"]), max_size=12), most=st.integers(0, 5), ahead=st.integers(0, 2)
)
def test_never_more_than_allowed_however_far_ahead_one_asks(purposes: list[Purpose], most: int, ahead: int) -> None:
    """Ask for up to `ahead` passes before the first of them is logged; only what was consented to is logged."""
    with TemporaryDirectory() as folder:
        bob = Party(Path(folder))
        decision = bob.by(Policy(most={"train": most}))
        number, under_way, made = 0, list[Pass](), 0
        for purpose in purposes:
            of = a_pass(number, purpose)
            while True:
                try:
                    decision.decide(of)
                except ConsentPending:
                    bob.log(under_way.pop(0))
                    continue
                except ConsentRefused:
                    assert purpose == "train"
                    assert made == most  # refused only where the limit is reached
                    break
                under_way.append(of)
                number += 1
                made += purpose == "train"
                if len(under_way) > ahead:
                    bob.log(under_way.pop(0))
                break
        assert made == min(most, purposes.count("train"))
        bob.close()


@given(
    rate=st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]),
    burst=st.integers(1, 4),
    pauses=st.lists(st.integers(0, 24), min_size=1, max_size=60),
)
@settings(max_examples=200)
def test_a_rate_lets_in_what_every_interval_allows(rate: float, burst: int, pauses: list[int]) -> None:
    """Brute force: in each interval of t seconds at most `burst` + `rate` t passes. All times are exact in binary."""
    now, due, let_in = NOON, None, list[float]()
    for pause in pauses:
        now += pause / 8
        excess = [
            (count + 1 - burst) / rate - (now - first)  # how long until the interval since then has room for one more
            for count, first in enumerate(reversed(let_in), start=1)
        ]
        wait, due = bucket(due, rate, burst, now)
        assert wait == max(0.0, 0.0, *excess)
        if not wait:
            let_in.append(now)


def test_too_early_is_pending_and_says_how_long(bob: Party) -> None:
    decision = bob.by(Policy(rate=0.5, burst=2))
    decision.decide(a_pass(0))
    decision.decide(a_pass(1))
    decision.decide(a_pass(1))  # the same pass again takes nothing
    with pytest.raises(ConsentPending, match=r"another 2 seconds: 0\.5 passes per second are allowed, 2 at") as early:
        decision.decide(a_pass(2))
    assert early.value.seconds == 2.0
    bob.now += 2.0
    decision.decide(a_pass(2))


def test_a_rate_outlasts_a_restart_and_a_clock_put_right(bob: Party) -> None:
    bob.now += 1e6  # a clock far ahead
    bob.by(Policy(rate=1.0, burst=3)).decide(a_pass(0))
    bob.now -= 1e6
    again = bob.by(Policy(rate=1.0, burst=3))
    with pytest.raises(ConsentPending) as early:
        again.decide(a_pass(1))
    assert early.value.seconds == 1.0
    bob.now += 1.0
    again.decide(a_pass(1))


def test_a_refusal_takes_nothing_from_the_rate(bob: Party) -> None:
    decision = bob.by(Policy(rate=0.001), Policy(human=True))
    for _ in range(3):
        assert not allows(decision.decide, a_pass(0))
    bob.state.approve(1, "train", NOON + 60)
    decision.decide(a_pass(0))


def test_a_person_approves_so_many_passes(bob: Party) -> None:
    decision = bob.by(Policy(human=True), Policy(human=True))
    with pytest.raises(ConsentPending, match=r"waits for a person at 'bob'.*modelkeep govern approve --purpose train"):
        decision.decide(a_pass(0))
    assert [(one.of, one.asked) for one in bob.state.pending()] == [(a_pass(0), NOON)]
    bob.state.approve(2, "train", NOON + 60, by="Bob")
    for _ in range(2):
        decision.decide(a_pass(0))
    assert bob.state.pending() == []
    assert bob.state.count_approvals("train", NOON) == 1
    bob.log(a_pass(0))
    decision.decide(a_pass(0))  # replayed: spends nothing
    decision.decide(a_pass(1))
    bob.log(a_pass(1))
    assert not allows(decision.decide, a_pass(2))
    assert [one.of.number for one in bob.state.pending()] == [2]


def test_an_approval_ends_at_its_time_and_is_for_its_purpose_and_asker(bob: Party) -> None:
    decision = bob.by(Policy(human=True))
    bob.state.approve(9, "train", NOON + 60, asker="carol")
    assert not allows(decision.decide, a_pass(0, "infer", asker="carol"))
    assert not allows(decision.decide, a_pass(0, asker="alice"))
    decision.decide(a_pass(0, asker="carol"))
    bob.now += 59.999
    decision.decide(a_pass(1, asker="carol"))
    bob.now += 0.001
    assert not allows(decision.decide, a_pass(2, asker="carol"))
    assert bob.state.count_approvals("train", bob.now) == 0


def test_the_approval_that_ends_first_is_spent_first(bob: Party) -> None:
    bob.state.approve(1, "train", NOON + 100)
    bob.state.approve(1, "train", NOON + 10)
    bob.by(Policy(human=True)).decide(a_pass(0))
    assert bob.state.count_approvals("train", NOON + 50) == 1


def test_no_approval_is_spent_twice_by_many_threads(bob: Party) -> None:
    decision = bob.by(Policy(human=True))
    bob.state.approve(7, "train", NOON + 60)
    with ThreadPoolExecutor(8) as threads:
        allowed = list(threads.map(lambda number: allows(decision.decide, a_pass(number % 20)), range(60)))
    passed = {number % 20 for number, allowed in enumerate(allowed) if allowed}
    assert len(passed) == 7
    assert bob.state.count_approvals("train", NOON) == 0
    assert {one.of.number for one in bob.state.pending()} == set(range(20)) - passed


def test_what_is_not_allowed_cannot_be_approved_or_withdrawn(bob: Party) -> None:
    with pytest.raises(InputError, match="passes"):
        bob.state.approve(0, "train", NOON)
    with pytest.raises(InputError, match="purpose"):
        bob.state.approve(1, "sell", NOON)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="purpose"):
        bob.state.withdraw("", "sell")  # type: ignore[arg-type]
    assert bob.state.changes() == []


def test_a_withdrawal_stops_a_pass_that_was_consented_to(bob: Party) -> None:
    decision = bob.by(Policy())
    decision.decide(a_pass(0))
    decision.require_not_withdrawn(a_pass(0))
    bob.state.withdraw("the contract has ended", "train")
    for ask in (decision.require_not_withdrawn, decision.decide, lambda of: decision.hold(of).__enter__()):
        with pytest.raises(ConsentRefused, match="'bob' has withdrawn its consent to train: the contract has ended"):
            ask(a_pass(0))
    decision.decide(a_pass(0, "infer"))
    bob.state.restore()
    decision.decide(a_pass(0))


def test_nothing_is_withdrawn_while_a_pass_is_written_down(bob: Party) -> None:
    decision = bob.by(Policy())
    elsewhere = ConsentState(bob.folder / "consent.sqlite3")  # as the command line has it, in another process
    with ThreadPoolExecutor(1) as pool, decision.hold(a_pass(0)):
        withdrawing = pool.submit(elsewhere.withdraw, "enough", "train")
        with pytest.raises(TimeoutError):
            withdrawing.result(0.2)
        bob.begin(a_pass(0))
    withdrawing.result()
    with pytest.raises(ConsentRefused, match="enough"), decision.hold(a_pass(1)):
        raise AssertionError
    elsewhere.close()


def test_a_withdrawal_of_everything_can_be_restored_for_one_purpose(bob: Party) -> None:
    bob.state.withdraw("")
    bob.state.restore("infer")
    assert [bob.state.withdrawal(purpose) for purpose in ("train", "evaluate", "infer")] == ["", "", None]
    with pytest.raises(ConsentRefused, match="no reason given"):
        bob.by(Policy()).require_not_withdrawn(a_pass(0))


def test_a_replayed_pass_is_refused_after_a_withdrawal(bob: Party) -> None:
    bob.log(a_pass(0))
    bob.state.withdraw("no")
    assert not allows(bob.by(Policy()).decide, a_pass(0))


def test_what_a_person_changed_is_in_the_events_once(bob: Party) -> None:
    bob.state.withdraw("no", "train")
    bob.state.restore()
    bob.state.approve(3, "train", NOON + 60, by="Bob")
    decision = bob.by(Policy())
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(decision.decide, [a_pass(0)] * 8))
    assert [(event.kind, event.text) for event in bob.ledger.events()] == [
        ("withdrawn", "consent to train was withdrawn: no"),
        ("restored", "consent to everything was restored"),
        ("approved", "3 passes to train, asked by anybody before mon 2024-01-01 12:01:00 UTC, were approved by Bob"),
    ]
    assert bob.state.changes() == []


def test_old_grants_are_forgotten_and_the_last_ones_kept(bob: Party, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelkeep.govern.consent.state.KEPT", 5)
    decision = bob.by(Policy(rate=1000.0, burst=50))
    for number in range(30):
        decision.decide(a_pass(number))
        bob.log(a_pass(number))
        with sqlite3.connect(bob.folder / "consent.sqlite3") as db:
            kept = [kept for (kept,) in db.execute("SELECT number FROM granted")]
        db.close()
        assert set(range(max(0, number - 4), number + 1)) <= set(kept)
        assert len(kept) <= 12


def test_a_pass_whose_number_was_taken_waits_no_more(bob: Party) -> None:
    assert not allows(bob.by(Policy(human=True)).decide, a_pass(0))
    bob.log(a_pass(0, "infer"))
    assert not allows(bob.by(Policy(human=True)).decide, a_pass(1))
    assert [one.of for one in bob.state.pending()] == [a_pass(1)]
