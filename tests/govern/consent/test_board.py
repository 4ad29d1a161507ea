"""A board: k of n people approve with keys of their own; who does not belong, or comes twice, does not count."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from govern.asking import Party, a_pass
from modelkeep.core.errors import ConsentPending, GovernError, InputError
from modelkeep.core.signing import Signer
from modelkeep.govern.consent import Approval, Board, Policy, Rate, read_policy
from modelkeep.govern.consent.board import choose
from modelkeep.govern.ledger.allowances import check_board, check_rates
from modelkeep.govern.ledger.findings import Findings
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.passes import Pass

NAMES = ("ann", "ben", "cleo", "dan")
NOW = 1_800_000_000.0
AGREEMENT = "a" * 64


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Signer]:
    folder = tmp_path_factory.mktemp("keys")
    return {name: Signer.at(folder / f"{name}.pem") for name in (*NAMES, "eve")}


def board_of(signers: dict[str, Signer], needed: int = 2, seconds: float = 3600.0) -> Board:
    return Board({name: signers[name].public_key for name in NAMES}, needed, seconds)


def an_approval(signer: Signer, approver: str, **other: Any) -> Approval:
    said: dict[str, Any] = {"agreement": AGREEMENT, "party": "bob", "purpose": "train", "passes": 1, "given": int(NOW)}
    return Approval(**{**said, "approver": approver, "until": int(NOW) + 600, **other}).sign(signer)


@pytest.fixture
def bob(tmp_path: Path) -> Iterator[Party]:
    party = Party(tmp_path, now=time.time())
    yield party
    party.close()


# ---- the count, against all ways to choose k people


@settings(max_examples=60, deadline=None)
@given(
    drawn=st.lists(
        st.tuples(
            st.sampled_from(NAMES),
            st.integers(1, 3),  # passes
            st.integers(0, 3),  # spent
            st.sampled_from([0, 1, 600]),  # seconds until it expires
            st.sampled_from(["train", "infer"]),
            st.sampled_from([None, "alice", "carol"]),
            st.sampled_from(["bob", "mallory"]),  # for which party
            st.booleans(),  # whether its own key signed it
        ),
        max_size=7,
    ),
    needed=st.integers(1, 4),
)
def test_a_pass_is_approved_just_if_k_people_can_be_chosen(
    signers: dict[str, Signer], drawn: list[tuple[Any, ...]], needed: int
) -> None:
    kept = []
    for approver, passes, spent, seconds, purpose, asker, party, own in drawn:
        said = {"passes": passes, "until": int(NOW) + seconds, "purpose": purpose, "asker": asker, "party": party}
        kept.append((an_approval(signers[approver if own else "eve"], approver, **said), spent))
    usable = [
        approval
        for (approval, spent), (*_, own) in zip(kept, drawn, strict=True)
        if own
        and (approval.party, approval.purpose) == ("bob", "train")
        and approval.asker in (None, "alice")
        and approval.until > NOW
        and spent < approval.passes
    ]
    possible = any(len({each.approver for each in some}) == needed for some in combinations(usable, needed))
    chosen, people = choose(board_of(signers, needed), kept, a_pass(), "bob", NOW)
    assert bool(chosen) == possible
    assert len({each.approver for each in chosen}) == len(chosen) in (0, needed)
    assert all(each in usable for each in chosen)
    assert people == sorted({each.approver for each in usable})


@settings(max_examples=40, deadline=None)
@given(passes=st.lists(st.integers(0, 5), min_size=4, max_size=4), needed=st.integers(1, 4))
def test_approvals_are_enough_for_as_many_passes_as_they_can_be(
    signers: dict[str, Signer], passes: list[int], needed: int
) -> None:
    given = {name: count for name, count in zip(NAMES, passes, strict=True) if count}
    kept = {name: [an_approval(signers[name], name, passes=count), 0] for name, count in given.items()}
    made = 0
    while True:
        now = [(approval, spent) for approval, spent in kept.values()]
        chosen, _ = choose(board_of(signers, needed), now, a_pass(), "bob", NOW)  # type: ignore[arg-type]
        if not chosen:
            break
        made += 1
        for approval in chosen:
            kept[approval.approver][1] += 1  # type: ignore[operator]
    # The most T with sum(min(passes, T)) >= needed T: in T passes a person can take part T times at most.
    assert made == max(t for t in range(21) if sum(min(count, t) for count in passes) >= needed * t)


# ---- one approval


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"approver": "eve"}, "'eve' is not on the board of 'bob'"),
        ({"approver": "ben"}, "not signed with the key that the policy names for 'ben'"),
        ({"party": "carol"}, "is for 'carol' under the agreement"),
        ({"agreement": "b" * 64}, "under the agreement bbbbbbbbbbbb…"),
        ({"until": int(NOW)}, "has expired"),
        ({"until": int(NOW) + 7200}, "the policy allows 3,600 at most"),
        ({"given": int(NOW) + 300}, "which is not yet"),
        ({"passes": 0}, "must be for one or more"),
    ],
    ids=["stranger", "another's name", "another party", "another agreement", "expired", "too long", "to come", "none"],
)
def test_an_approval_that_cannot_count_is_refused_in_a_sentence(
    signers: dict[str, Signer], other: dict[str, Any], sentence: str
) -> None:
    board = board_of(signers)
    an_approval(signers["ann"], "ann").check(board, AGREEMENT, "bob", NOW)
    with pytest.raises(GovernError, match=sentence):
        an_approval(signers["ann"], **{"approver": "ann", **other}).check(board, AGREEMENT, "bob", NOW)
    altered = replace(an_approval(signers["ann"], "ann"), passes=100)
    with pytest.raises(GovernError, match="not signed"):
        altered.check(board, AGREEMENT, "bob", NOW)


@pytest.mark.parametrize(
    "values",
    [
        {"approvers": {"ann": "0" * 63}, "needed": 1},
        {"approvers": {"ann": "0" * 64, "ben": "0" * 64}, "needed": 1},
        {"approvers": {"ann": "0" * 64}, "needed": 2},
        {"approvers": {}, "needed": 0},
        {"approvers": {"ann": "0" * 64}, "needed": 1, "seconds": 0.0},
    ],
)
def test_a_board_that_cannot_be_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises((InputError, GovernError)):
        read_policy({"board": values})


# ---- in the party


def test_a_board_decides_and_an_audit_can_check_it(bob: Party, signers: dict[str, Signer]) -> None:
    policy = Policy(board=board_of(signers))
    assert read_policy(policy.values()) == policy
    board, decision, now = board_of(signers), bob.by(policy), bob.now

    def approve(name: str, **other: Any) -> None:
        said = {"given": int(now), "until": int(now) + 600, **other}
        bob.state.board.add(an_approval(signers[name], name, **said), board, AGREEMENT, "bob")

    with pytest.raises(ConsentPending, match=r"0 of the board of 'bob' have approved it, and 2 must"):
        decision.decide(a_pass())
    assert [one.of for one in bob.state.pending()] == [a_pass()]
    approve("ann", passes=5)
    with pytest.raises(GovernError, match="'ann' has approved that already, for 5 more passes"):
        approve("ann")
    approve("cleo", only=a_pass(7).digest)
    with pytest.raises(ConsentPending, match="1 of the board"):
        decision.decide(a_pass())
    approve("ben")
    decision.decide(a_pass())
    decision.decide(a_pass())  # asked again, it is not spent again
    bob.log(a_pass())
    assert bob.state.board.left(board, "train", now) == {"ann": 4, "ben": 0, "cleo": 1, "dan": 0}
    with pytest.raises(ConsentPending, match="1 of the board"):
        decision.decide(a_pass(1))
    told = [change.text for change in bob.state.changes()]
    assert not told  # they are in the account by now
    assert _wrong(bob, policy) == []

    bob.begin(a_pass(1))  # as changed software does
    assert _wrong(bob, policy) == ["This pass was begun without the approval of the board of 'bob'."]
    stricter = Policy(board=replace(board, needed=3))
    assert all("without the approval" in text for text in _wrong(bob, stricter))


def test_approvals_that_were_used_too_often_or_made_up_are_found(bob: Party, signers: dict[str, Signer]) -> None:
    board, now = board_of(signers, needed=1), int(time.time())
    once = an_approval(signers["ann"], "ann", given=now, until=now + 600)
    forged = an_approval(signers["eve"], "ben", given=now, until=now + 600)

    def log(of: Pass, approval: Approval) -> None:
        about = {"pass": of.digest, "purpose": of.purpose, "step": of.step, "board": board.name}
        bob.ledger.event("board", "approved", **about, approvals=[approval.values()])
        bob.log(of)

    log(a_pass(0), once)
    assert _wrong(bob, Policy(board=board)) == []
    log(a_pass(1), once)
    log(a_pass(2), forged)
    log(a_pass(3), replace(once, agreement="b" * 64))
    used, made_up, elsewhere = _wrong(bob, Policy(board=board))
    assert "used too often" in used
    assert "not signed with the key" in made_up
    assert "under the agreement bbbbbbbbbbbb…" in elsewhere


def _wrong(bob: Party, policy: Policy) -> list[str]:
    events = list(read_ledger(bob.ledger.path).events())
    intents = [event for event in events if event.kind == "intent"]
    findings = Findings()
    check_board("bob", intents, [event for event in events if event.kind == "board"], policy, AGREEMENT, findings)
    check_rates("bob", intents, policy, findings)
    return [finding.text for finding in findings.all()]


# ---- rates for a purpose


@settings(max_examples=60, deadline=None)
@given(
    times=st.lists(st.integers(0, 60), max_size=12).map(sorted), passes=st.integers(1, 4), seconds=st.integers(1, 30)
)
def test_a_rate_lets_in_just_what_keeps_every_window(times: list[int], passes: int, seconds: int) -> None:
    rate, begun = Rate(passes, float(seconds)), list[float]()
    for now in times:
        fits = sum(each > now - seconds for each in begun) < passes  # all begun are before now
        wait = rate.wait(begun, now)
        assert (wait == 0) == fits
        if fits:
            begun.append(float(now))
        else:
            assert rate.wait(begun, now + wait) == 0  # after so long a wait it is let in, and not a moment before
            assert rate.wait(begun, now + wait - 0.5) > 0


def test_a_rate_counts_what_was_given_up_and_outlasts_a_restart(bob: Party) -> None:
    policy = Policy(rates={"infer": Rate(2, 3600.0)})
    assert read_policy(policy.values()) == policy
    bob.by(policy).decide(a_pass(0, "infer"))
    bob.log(a_pass(0, "infer"))
    attempt = bob.begin(a_pass(1, "infer"))
    bob.ledger.attempts.end(attempt, "given up", "it broke off")
    bob.by(policy).decide(a_pass(1, "infer"))  # the same pass again brings nothing new
    for _ in range(2):
        with pytest.raises(ConsentPending, match=r"2 passes to infer in 3600 seconds are allowed"):
            bob.by(policy).decide(a_pass(1, "infer", data="f" * 64))
        bob.by(policy).decide(a_pass(1, "train"))
        bob.ledger.close()
        bob.state.close()
        bob.__post_init__()  # the process starts again
    assert _wrong(bob, policy) == []
    bob.begin(a_pass(1, "infer", data="f" * 64))  # as changed software does
    assert "More than 2 passes to infer were begun" in _wrong(bob, policy)[0]
    bob.now += 3601
    bob.by(policy).decide(a_pass(1, "infer", data="0" * 64))
