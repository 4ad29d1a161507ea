"""A curious party writes down what crosses in a real governed run, and completes the model with it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from govern.meeting import meeting
from govern.networks import digit_model, pictures
from govern.parties import Host, found
from modelkeep.completion.part import Part
from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures.joint_training import JointTraining
from modelkeep.completion.procedures.regression import Regression
from modelkeep.completion.recording import Recording, record
from modelkeep.core.errors import GovernError
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.recorder import Recorder
from modelkeep.govern.session.runs import infer, train
from modelkeep.training import Adam, Recipe

CNN = ("govern.networks:digit_network", "pictures")
TRAINING = Recipe(steps=25, batch_size=32, optimizer=Adam(), learning_rate=0.01)
MISSING = Part("Conv 2", ("3",))


def crossed(recording: Recording, number: int) -> dict[str, torch.Tensor]:
    """All tensors of a pass, by name."""
    one = recording.passes[number]
    named = {f"{kind} {j}": t for kind in ("inputs", "outputs") for j, t in enumerate(getattr(one, kind))}
    for kind in ("output_gradients", "input_gradients"):
        named |= {f"{kind} {j}": t for j, t in enumerate(getattr(one, kind)) if t is not None}
    return {"rows": one.rows, **named}


def test_what_a_party_records_completes_the_model(tmp_path: Path, hosts: dict[str, Host]) -> None:
    split = meeting(tmp_path, hosts, *CNN, ["2", "3"], ["alice", "bob", "alice"], "alice", recipe=TRAINING)
    with split.up(), split.alice() as leader:
        recorder = Recorder(leader.party, passes=TRAINING.steps or 0)
        train(leader)
        infer(leader, split.data.x[:32])
    training, asking = recorder.recording("train"), recorder.recording("infer")

    # What crossed in the first pass is what crosses in one process, to the bit; and Bob's piece did what was recorded.
    torch.manual_seed(0)
    start = split.agreement.build()
    alone = record(start, MISSING, split.data, passes=1, batch_size=32, seed=split.agreement.seed, training=True)
    assert (training.start, training.end, training.data) == (alone.start, alone.end, alone.data)
    wanted, got = crossed(alone, 0), crossed(training, 0)
    assert wanted.keys() == got.keys()
    assert {"inputs 0", "outputs 0", "output_gradients 0", "input_gradients 0"} < got.keys()
    assert all(torch.equal(wanted[name], got[name]) for name in wanted)
    model = split.alone()
    piece = asking.piece(model)
    assert torch.equal(piece(asking.passes[0].inputs, training=False)[0], asking.passes[0].outputs[0])

    # The last passes of the training are enough to get the layer back, sooner than by training alone.
    late = Recording(training.start, training.end, True, training.data, training.passes[-5:])
    again = Recipe(steps=60, batch_size=32, optimizer=Adam(), learning_rate=0.003, evaluate_every=10)
    problem = Problem(model, MISSING, split.data, split.data, again, late)
    regressed, joint = Regression(share=0.5, learning_rate=0.02)(problem, seed=1), JointTraining()(problem, seed=1)
    right = (model.predict(split.data.x) == split.data.y).float().mean().item()
    assert 1 - regressed.curve.losses[3] > right - 0.03
    assert regressed.curve.losses[3] < joint.curve.losses[0] - 0.2
    assert regressed.curve.steps == joint.curve.steps


def test_of_the_last_piece_only_gradients_come_back(tmp_path: Path, hosts: dict[str, Host]) -> None:
    few = Recipe(steps=3, batch_size=32, optimizer=Adam(), micro_batches=2)
    split = meeting(tmp_path, hosts, *CNN, ["8"], ["alice", "bob"], "bob", recipe=few)
    with split.up(), split.alice() as leader:
        recorder = Recorder(leader.party, passes=4)
        with pytest.raises(GovernError, match="has seen no pass"):
            recorder.recording("train")
        train(leader)
        infer(leader, split.data.x[:8])
    training, asking = recorder.recording("train"), recorder.recording("infer")
    assert len(training.passes) == 4, "the last two passes, each in two micro-batches"
    assert all(len(passed.rows) == 16 == len(passed.inputs[0]) for passed in training.passes)
    assert all(not passed.outputs and passed.input_gradients for passed in training.passes)
    assert asking.passes[0].outputs[0].shape == (8, 10), "whoever asks gets the answers"


def test_a_party_that_holds_too_little_cannot_record_a_piece(tmp_path: Path) -> None:
    data = pictures()
    model = digit_model(data)
    _, folders = found(tmp_path, model, data, cuts=["2", "5"], holders=["bob", "alice", "bob"], labels="alice")
    with Party(folders["alice"], data=[data]) as party, pytest.raises(GovernError, match="all of the model but one"):
        Recorder(party, passes=1)
