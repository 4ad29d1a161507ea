"""Faults lose nothing: whatever happens to whom at which moment, the weights and the ledgers come out the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from govern.chaos import KINDS, Stage, drawn
from govern.faulty_party import Order
from govern.play import Fault, Signal
from govern.proxy import Damage

UPDATES = 30
LAST = UPDATES - 3

# One training for each list; within it the moments come one after another.
MOMENTS: dict[str, list[tuple[str, Order | Damage | Signal]]] = {
    "phase one: everybody computes, and prepares": [
        ("bob", Order("drop", "answer")),  # a consent is lost
        ("alice", Order("twice", "ask")),
        ("alice", Order("drop", "begin")),
        ("alice", Order("twice", "begin")),
        ("alice", Order("drop", "activations", skip=1)),
        ("alice", Order("twice", "activations")),
        ("bob", Order("twice", "gradients")),
        ("bob", Order("late", "gradients", seconds=0.2)),  # those of the next micro-batch overtake them
        ("bob", Damage("cut", least=1000)),  # the connection breaks in the middle of a tensor
        ("bob", Damage("flip", least=1000)),
        ("bob", Order("die before", "gradients")),
        ("alice", Order("die after", "activations")),
    ],
    "between the phases: some have prepared, nobody has committed": [
        ("bob", Order("drop", "prepared")),
        ("bob", Order("twice", "prepared")),
        ("bob", Order("late", "prepared", seconds=0.5)),
        ("bob", Order("die before", "prepared")),
        ("bob", Order("die after", "prepared")),
        ("bob", Order("full", seconds=0.3)),
        ("alice", Order("full", seconds=0.3)),
        ("bob", Signal("pause", 0.5)),
    ],
    "phase two: the leader has committed, the others have not": [
        ("alice", Order("drop", "commit")),
        ("alice", Order("twice", "commit")),
        ("alice", Order("late", "commit", seconds=0.3)),  # the next pass overtakes it
        ("alice", Order("die before", "commit")),
        ("alice", Order("die after", "commit")),
        ("bob", Order("die writing")),  # in the middle of a checkpoint
        ("alice", Order("die writing")),
    ],
}
AT_THE_END = {
    "the last commit is lost": ("alice", Order("drop", "commit", skip=2)),
    "the leader dies before it tells the last commit": ("alice", Order("die before", "commit", skip=2)),
    "the leader dies while it ends the session": ("alice", Order("die after", "close")),
    "a commit is lost in the evaluation": ("alice", Order("drop", "commit", skip=4)),
    "a party dies in the evaluation": ("bob", Order("die before", "prepared", skip=4)),
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Alice and Bob, who have trained undisturbed once."""
    root: Path = tmp_path_factory.mktemp("stage")
    return Stage(root, parties=2, updates=UPDATES, every=4, deadline=1.0)


@pytest.mark.parametrize("phase", MOMENTS)
def test_a_fault_at_any_moment_of_a_pass_changes_nothing(stage: Stage, phase: str) -> None:
    moments = MOMENTS[phase]
    told = stage.play([Fault(2 + 2 * i, party, what) for i, (party, what) in enumerate(moments)])
    assert told.problems == []
    assert sum(told.faults.values()) == len(moments)


@pytest.mark.parametrize("moment", AT_THE_END)
def test_a_fault_at_the_end_changes_nothing(stage: Stage, moment: str) -> None:
    told = stage.play([Fault(LAST, *AT_THE_END[moment])])
    assert told.problems == []
    assert sum(told.faults.values()) == 1


def test_all_kinds_of_faults_in_one_training_of_three_parties_change_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, parties=3, updates=30, deadline=1.0)
    told = stage.play(drawn(len(KINDS), stage.names, stage.updates, seed=5))
    assert told.problems == []
    assert told.faults == dict.fromkeys(sorted(KINDS), 1)
