"""Faults lose nothing: whatever happens to whom at which moment, the weights and the ledgers come out the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from govern.chaos import KINDS, Fault, Signal, Stage, drawn
from govern.faulty_party import Order
from govern.proxy import Damage

UPDATES = 12


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Alice and Bob, who have trained undisturbed once."""
    root: Path = tmp_path_factory.mktemp("stage")
    return Stage(root, parties=2, updates=UPDATES, every=4)


MOMENTS = {
    # Phase one: everybody computes and prepares.
    "a consent is lost": Fault(3, "bob", Order("drop", "answer")),
    "a question for consent is lost": Fault(3, "alice", Order("drop", "ask")),
    "a beginning is lost": Fault(3, "alice", Order("drop", "begin")),
    "a beginning comes twice": Fault(3, "alice", Order("twice", "begin")),
    "activations are lost": Fault(3, "alice", Order("drop", "activations")),
    "activations come twice": Fault(3, "alice", Order("twice", "activations")),
    "gradients come twice": Fault(3, "bob", Order("twice", "gradients")),
    "gradients overtake each other": Fault(3, "bob", Order("late", "gradients", seconds=0.2)),
    "a tensor breaks off in the middle": Fault(3, "bob", Damage("cut", least=1000)),
    "a tensor is damaged": Fault(3, "bob", Damage("flip", least=1000)),
    "who serves dies with activations unanswered": Fault(3, "bob", Order("die before", "gradients")),
    "who leads dies in the middle of its activations": Fault(3, "alice", Order("die after", "activations")),
    # Between the phases.
    "a preparation is not told": Fault(3, "bob", Order("drop", "prepared")),
    "a preparation is told twice": Fault(3, "bob", Order("twice", "prepared")),
    "who serves dies before it tells that it has prepared": Fault(3, "bob", Order("die before", "prepared")),
    "who serves dies after it has told": Fault(3, "bob", Order("die after", "prepared")),
    # Phase two: the leader has committed, the others have not.
    "a commit is lost": Fault(3, "alice", Order("drop", "commit")),
    "a commit comes twice": Fault(3, "alice", Order("twice", "commit")),
    "a commit is overtaken by the next pass": Fault(3, "alice", Order("late", "commit", seconds=0.3)),
    "who leads dies after its own commit": Fault(3, "alice", Order("die before", "commit")),
    "who leads dies after it has told the commit": Fault(3, "alice", Order("die after", "commit")),
    "who leads dies before it tells the last commit": Fault(UPDATES - 3, "alice", Order("die before", "commit", 2)),
    # Checkpoints, the disk, and the end.
    "who serves dies in the middle of a checkpoint": Fault(3, "bob", Order("die writing")),
    "who leads dies in the middle of a checkpoint": Fault(3, "alice", Order("die writing")),
    "the disk of who serves is full": Fault(3, "bob", Order("full", seconds=0.3)),
    "the disk of who leads is full": Fault(3, "alice", Order("full", seconds=0.3)),
    "the last answer is lost": Fault(0, "alice", Order("drop", "close")),
    "a recovery is disturbed": Fault(0, "bob", Order("drop", "answer")),
    "who serves pauses": Fault(3, "bob", Signal("pause", 0.5)),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_fault_at_this_moment_changes_nothing(stage: Stage, moment: str) -> None:
    told = stage.play([MOMENTS[moment]])
    assert told.problems == []
    assert sum(told.faults.values()) == 1


def test_all_kinds_of_faults_in_one_training_of_three_parties_change_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, parties=3, updates=30)
    told = stage.play(drawn(len(KINDS), stage.names, stage.updates, seed=5))
    assert told.problems == []
    assert told.faults == dict.fromkeys(sorted(KINDS), 1)
