"""A split run ends with the very bits of the run in one process, whatever is split, and whoever holds what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from govern.meeting import meeting, same_bits
from govern.networks import smoothed
from govern.parties import Host, approve
from modelkeep.core.errors import GovernError, InputError
from modelkeep.govern.agreement.limits import Limits
from modelkeep.govern.session.oversight import check
from modelkeep.govern.session.runs import evaluate, infer, train
from modelkeep.govern.wire.settings import Wire
from modelkeep.training import Adam, Recipe, cross_entropy
from modelkeep.training.augmentation import Augmentation
from modelkeep.training.evaluation import evaluate as evaluate_alone
from modelkeep.training.schedules import StepDecay

CNN = ("govern.networks:digit_network", "pictures")
RESNET = ("modelkeep.architectures:small_resnet", "pictures")
LSTM = ("core.slices.split_networks:Recurrent", "sequences")
TRANSFORMER = ("core.slices.split_networks:Transformer", "sequences")
SMALL = {"arguments": {"input_shape": [1, 8, 8], "classes": 10, "blocks": 1, "width": 4}}
ADAM = Recipe(
    epochs=1,
    batch_size=30,  # the last batch has ten
    optimizer=Adam(weight_decay=0.01, decoupled=True),
    learning_rate=StepDecay(((0, 0.01), (3, 0.002))),
    augmentation=Augmentation(flip=True, rotation=10, shift=0.1),
    micro_batches=3,
)
FEW = Recipe(steps=4, batch_size=32, optimizer=Adam(), learning_rate=0.01)
CASES: dict[str, tuple[tuple[str, str], list[str], list[str], str, dict[str, Any]]] = {
    "cnn of two": (CNN, ["2"], ["alice", "bob"], "bob", {}),
    "cnn of three with everything": (CNN, ["1", "5"], ["alice", "bob", "carol"], "carol", {"recipe": ADAM}),
    "cnn U-shaped": (CNN, ["2", "7"], ["alice", "bob", "alice"], "alice", {}),
    "cnn with labels elsewhere": (CNN, ["3"], ["alice", "bob"], "carol", {"recipe": FEW}),
    "cnn with data elsewhere": (CNN, ["3"], ["bob", "carol"], "bob", {"recipe": FEW}),
    "resnet of two inside a block": (RESNET, ["section2.block1.residual.conv1"], ["alice", "bob"], "alice", SMALL),
    "resnet of three": (
        RESNET,
        ["section1.block1.residual.conv1.relu", "section3.block1.residual.conv2.conv"],
        ["alice", "bob", "carol"],
        "carol",
        {**SMALL, "recipe": FEW},
    ),
    "lstm of two": (LSTM, ["first"], ["alice", "bob"], "bob", {"recipe": FEW}),
    "lstm of three": (LSTM, ["between", "second"], ["alice", "bob", "carol"], "alice", {}),
    "transformer of two": (TRANSFORMER, ["attention"], ["alice", "bob"], "bob", {"recipe": FEW}),
    "transformer of three": (TRANSFORMER, ["norm1", "up"], ["alice", "bob", "carol"], "carol", {}),
    "another objective": (CNN, ["2"], ["alice", "bob"], "bob", {"objective": "govern.networks:smoothed"}),
    "compressed": (CNN, ["2"], ["alice", "bob"], "bob", {"wire": Wire(compression="zstd", deadline=20.0)}),
}


@pytest.mark.parametrize("case", CASES)
def test_split_run_equals_the_run_in_one_process(case: str, tmp_path: Path, hosts: dict[str, Host]) -> None:
    (architecture, made), cuts, holders, labels, more = CASES[case]
    limits = Limits(checked_passes=100)
    split = meeting(tmp_path, hosts, architecture, made, cuts, holders, labels, limits=limits, **more)
    others = [name for name in split.folders if name != "alice"]
    for name in others:
        approve(split.folders[name], "check", len(others))
    with split.up(), split.alice() as leader:
        trained = train(leader)
        judged = evaluate(leader, split.data, labels_at=labels, batch=70)
        answers = infer(leader, split.data.x[:9])
        checks = [check(leader, name) for name in others]
    assert [each.wrong for each in checks] == [""] * len(others)  # an honest party is never accused
    alone = split.alone(smoothed if "objective" in more else cross_entropy)
    assert trained.updates == trained.total > 0
    assert trained.recoveries == 0
    assert same_bits(split.weights(), alone)
    assert torch.equal(answers, alone.logits(split.data.x[:9]))
    loss, accuracy = evaluate_alone(alone, split.data)
    assert judged.accuracy == accuracy
    assert judged.loss == pytest.approx(loss.value)


def test_stopped_and_resumed_run_equals_the_run_in_one_process(tmp_path: Path, hosts: dict[str, Host]) -> None:
    split = meeting(tmp_path, hosts, *CNN, ["2"], ["alice", "bob"], "bob", recipe=ADAM)
    for updates in (1, 4, None):  # all processes' parties are new each time
        with split.up(), split.alice() as leader:
            trained = train(leader, updates=updates)
    assert trained.updates == 6
    assert [update for update, _ in trained.losses] == [5, 6]
    assert same_bits(split.weights(), split.alone())
    with split.up(), split.alice() as leader:
        assert train(leader).losses == ()  # there is nothing left to do
    assert same_bits(split.weights(), split.alone())


def test_rounding_on_the_wire_changes_bits_but_little_else(tmp_path: Path, hosts: dict[str, Host]) -> None:
    wire = Wire(dtype="bfloat16", deadline=20.0)
    split = meeting(tmp_path, hosts, *CNN, ["2"], ["alice", "bob"], "bob", wire=wire)
    with split.up(), split.alice() as leader:
        train(leader)
        answers = infer(leader, split.data.x)
    alone = split.alone()
    assert not same_bits(split.weights(), alone)
    assert not torch.equal(answers, alone.logits(split.data.x))
    torch.testing.assert_close(answers.softmax(1), alone.logits(split.data.x).softmax(1), atol=0.05, rtol=0)


def test_objective_that_does_not_split_is_refused(tmp_path: Path, hosts: dict[str, Host]) -> None:
    split = meeting(tmp_path, hosts, *CNN, ["2"], ["alice", "bob"], "bob", objective="govern.networks:attacked")
    with split.up(), split.alice() as leader, pytest.raises(GovernError, match="so it does not split"):
        train(leader)


def test_recipe_that_trains_a_part_only_is_refused(tmp_path: Path) -> None:
    some = Recipe(steps=1, trainable=("9",))  # parties would train the rest too
    with pytest.raises(InputError, match="trains all parameters"):
        meeting(tmp_path, {}, *CNN, ["2"], ["alice", "bob"], "bob", recipe=some)
