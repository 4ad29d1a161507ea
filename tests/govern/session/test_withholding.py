"""Consent through the whole protocol: without every party's, nobody can use the model; with it, nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from govern.meeting import Meeting, meeting, same_bits
from govern.parties import Host
from modelkeep.core.errors import ConsentPending, ConsentRefused
from modelkeep.govern.consent import ConsentState
from modelkeep.govern.ledger.audit import audit
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.passes import Pass, Purpose
from modelkeep.govern.session.leader import Leader
from modelkeep.govern.session.runs import evaluate, infer, train

USES: dict[str, Callable[[Leader, Meeting], Any]] = {
    "train": lambda leader, split: train(leader),
    "evaluate": lambda leader, split: evaluate(leader, split.data),
    "infer": lambda leader, split: infer(leader, split.data.x[:5]),
}


def of_three(root: Path, hosts: dict[str, Host], **more: Any) -> Meeting:
    holders = ["alice", "bob", "carol"]
    return meeting(root, hosts, "govern.networks:digit_network", "pictures", ["2", "5"], holders, "carol", **more)


def passes(split: Meeting) -> dict[str, int]:
    """How many passes each party has logged."""
    return {name: len(list(read_ledger(folder.ledger).entries())) for name, folder in split.folders.items()}


def is_sound(split: Meeting) -> bool:
    return audit(split.agreement, {name: folder.ledger for name, folder in split.folders.items()}).sound


def test_withdrawal_ends_every_use_until_it_is_taken_back(tmp_path: Path, hosts: dict[str, Host]) -> None:
    split = of_three(tmp_path, hosts)
    bob = ConsentState(split.folders["bob"].consent)  # as the command line opens it, in another process than Bob's
    with split.up(), split.alice() as leader:
        run = leader.run

        def withdrawing(purpose: Purpose, make: Callable[[int, int], Pass]) -> dict[str, float]:
            if leader.party.pieces.step == 3:  # Bob has consented to this pass already, while the last one ran
                bob.withdraw("I want a share of the profit")
            return run(purpose, make)

        leader.run = withdrawing  # type: ignore[method-assign]
        with pytest.raises(ConsentRefused, match="'bob' has withdrawn its consent to train: I want a share"):
            train(leader)
        leader.run = run  # type: ignore[method-assign]
        for purpose, use in USES.items():
            with pytest.raises(ConsentRefused, match=f"to {purpose}: I want a share"):
                use(leader, split)
        assert leader.party.passes.answers.numel() == 0
        assert passes(split) == {"alice": 3, "bob": 3, "carol": 3}
        bob.restore("infer")
        assert infer(leader, split.data.x[:5]).shape == (5, 10)
        with pytest.raises(ConsentRefused, match="I want a share"):
            train(leader)
        bob.restore()
        train(leader)
        answers = infer(leader, split.data.x[:5])
    alone = split.alone()
    assert same_bits(split.weights(), alone)
    assert torch.equal(answers, alone.logits(split.data.x[:5]))
    assert passes(split) == {"alice": 8, "bob": 8, "carol": 8}
    assert is_sound(split)
    told = [event.text for event in read_ledger(split.folders["bob"].ledger).events()]
    assert any("withdrawn: I want a share" in text for text in told)
    bob.close()


def test_policies_hold_over_the_wire(tmp_path: Path, hosts: dict[str, Host]) -> None:
    policies = {"bob": {"purposes": ["train", "infer"], "most": {"train": 4}}, "carol": {"human": True}}
    split = of_three(tmp_path, hosts, policies=policies)
    carol = ConsentState(split.folders["carol"].consent)
    later = time.time() + 3600
    with split.up(), split.alice(patience=0.5) as leader:
        with pytest.raises(ConsentRefused, match=r"its purpose is not allowed\. Purposes allowed: train, infer"):
            evaluate(leader, split.data)
        with pytest.raises(ConsentPending, match="waits for a person at 'carol'"):
            train(leader)
        assert [waiting.of.purpose for waiting in carol.pending()] == ["train"]
        carol.approve(2, "train", later, by="Carol")
        with pytest.raises(ConsentPending, match=r"pass 2 \(train, asked by alice\)"):
            train(leader)
        assert passes(split) == {"alice": 2, "bob": 2, "carol": 2}
        carol.approve(10, "train", later)
        with pytest.raises(ConsentRefused, match="4 passes to train were begun, and 4 are allowed"):
            train(leader)
    assert passes(split) == {"alice": 4, "bob": 4, "carol": 4}
    assert same_bits(split.weights(), split.alone(updates=4))
    carol.close()
