"""The account as a bank statement: every line that must be there, in 80 columns, and what remains."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from govern.asking import Party, a_pass
from modelkeep.govern.consent import Policy, Rate, Window
from modelkeep.govern.ledger.budgets import count_budgets
from modelkeep.govern.ledger.history import WIDTH, History, HistoryLine, merge, write_statement
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.ledger.statements import Account
from modelkeep.govern.ledger.writer import EventLog


@pytest.fixture
def bob(tmp_path: Path) -> Iterator[Party]:
    party = Party(tmp_path, now=time.time())
    yield party
    party.close()


def lines(bob: Party) -> list[HistoryLine]:
    history = History("bob")
    for event in read_ledger(bob.ledger.path).events():
        history.take(event)
    return history.lines()


def test_each_thing_that_happened_is_a_line(bob: Party) -> None:
    for number in range(3):
        bob.log(a_pass(number))
    attempt = bob.begin(a_pass(3, "infer"))
    bob.ledger.attempts.end(attempt, "given up", "The line broke. \x1b[31mNo more came.")
    bob.state.withdraw("the contract has ended")
    bob.by(Policy()).note_changes()
    log = EventLog(bob.ledger, lambda text: None)
    log.note_refusal("'bob' has withdrawn its consent to infer: the contract has ended.", a_pass(3, "infer", "carol"))
    log.note_refusal("'bob' has withdrawn its consent to infer: the contract has ended.", a_pass(3, "infer", "carol"))
    bob.begin(a_pass(3, "evaluate"))

    found = [(each.what, each.passes, each.first, each.last, each.asker, each.rows) for each in lines(bob)]
    assert found == [
        ("completed", 3, 0, 2, "alice", 48),
        ("given up", 1, 3, 3, "alice", 16),
        ("withdrawn", 0, None, None, "", None),
        ("refused", 2, 3, 3, "carol", 32),
        ("under way", 1, 3, 3, "alice", 16),
    ]
    text = write_statement(lines(bob), ["alice", "bob"], of="bob")
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "\x1b" not in text
    for words in ("0–2       alice      train         48  completed, 3", "refused 2 times", "the contract has ended"):
        assert words in text
    assert "the signed consent of: alice, bob." in text


def test_what_several_parties_tell_is_told_once_but_for_what_each_says_itself(bob: Party) -> None:
    bob.log(a_pass())
    both = lines(bob)
    refused = HistoryLine("alice", 1.0, "refused", 1, 0, 0, "carol", "infer", 3, "no")
    found = merge([[*both, refused], [*both, refused]])
    assert [each.what for each in found] == ["refused", "refused", "completed"]
    apart = [HistoryLine("carol", 9.0, "completed", 1, number, number, "alice", "train", 16) for number in (0, 1)]
    lost = HistoryLine("bob", 8.0, "lost", 1, 2, 2, "alice", "infer", 16)
    joined = [apart[1].joined(apart[0]), lost]
    assert [(each.what, each.passes) for each in merge([joined, [*apart, lost]])] == [("lost", 1), ("completed", 2)]
    assert merge([]) == []


def test_a_ledger_without_rows_and_askers_still_reads(bob: Party) -> None:
    about = {"pass": "d" * 64, "number": 4, "attempt": "x", "session": "s", "purpose": "infer"}
    bob.ledger.event("intent", "pass 4 (infer, asked by alice) begins.", **about)
    bob.ledger.event("lost", "The process ended in this attempt.", attempt="x")
    (line,) = lines(bob)
    assert (line.what, line.asker, line.rows, line.first) == ("lost", "alice", None, 4)
    assert write_statement([], ["alice"]).endswith("nothing yet")


def test_what_remains_is_what_the_strictest_policy_leaves(bob: Party) -> None:
    for number in range(3):
        bob.log(a_pass(number, "infer"))
    account = Account("bob")
    for event in read_ledger(bob.ledger.path).events():
        account.take(event)
    never = Window(("mon",), "00:00", "00:01")
    agreed = Policy(most={"infer": 10}, rates={"infer": Rate(4, 3600.0)}, purposes=("infer", "train"))
    own = Policy(most={"infer": 5, "train": 7}, human=True, windows=(never,))
    bob.state.approve(2, "infer", bob.now + 60)
    bob.state.withdraw("a pause", "train")
    train, evaluate, infer, release, _ = count_budgets([agreed, own], account, bob.state, bob.now)
    assert (infer.begun, infer.most, infer.left) == (3, 5, 2)
    assert "1 of 4 in 3600 s free now" in infer.now
    assert "a person must approve (2 approved)" in infer.now
    assert "not allowed" in evaluate.now
    assert "a person must approve (0 approved)" in release.now
    assert (train.left, train.now[0]) == (7, "WITHDRAWN: a pause")
    assert any("mon 00:00–00:01 UTC" in words for words in train.now)
