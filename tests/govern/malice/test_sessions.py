"""A changed leader who tells two parties different things when a session opens."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from govern.intruder import crossing
from govern.malice.mallory import Mallory, mallory
from govern.malice.test_members import found, up
from govern.meeting import MOMENTUM, meeting, same_bits
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.session.runs import train


def prepare(leader: Mallory) -> list[dict[str, Any]]:
    """Have Bob and Carol prepare an inference, and keep what they state."""
    of = leader.inference("a")
    leader.run(of)
    leader.bob.activations(of, crossing(5), wants=[False])
    theirs = []
    for each in leader.to.values():
        while (told := each.hear()).kind != "prepared":
            pass
        theirs.append(told.header["receipt"])
    return [asdict(leader.bob.state("prepared", theirs[0]["event"]["values"])), *theirs]


def test_what_one_party_committed_and_another_was_made_to_give_up_counts_for_both(tmp_path: Path) -> None:
    """Found by the explorer: Bob was told that the pass is committed, Carol that it is not; they could never go on."""
    split = meeting(
        tmp_path, {}, "govern.networks:digit_network", "pictures", ["2"], ["alice", "bob"], "carol", recipe=MOMENTUM
    )
    with up(split) as honest:
        train(honest)
        with mallory(split) as leader:
            committed = read_ledger(split.folders["bob"].ledger).committed
            leader.meet()
            proof = prepare(leader)
            told = leader.open()
            for name, claims in (("bob", 1), ("carol", 0)):
                standings = leader.standings(told, committed=committed + claims, length=committed + 1)
                standings[0]["proof"] = proof
                assert leader.to[name].ask("settle", {"standings": standings}).kind == "answer"
            for name, claims in (("bob", 1), ("carol", 0)):
                assert read_ledger(split.folders[name].ledger).committed == committed + claims
            assert {each.kind for each in leader.meet(committed=committed).values()} == {"answer"}
        assert read_ledger(split.folders["carol"].ledger).committed == committed + 1
    assert same_bits(split.weights(), split.alone())
    kinds = {(finding.kind, finding.party) for finding in found(split).findings}
    assert ("contradiction", "alice") in kinds
    assert {party for _, party in kinds} == {"alice"}
