"""Pictures from the weights of a network that learned a few examples by heart show them; chance is not accused."""

from __future__ import annotations

import torch
from torch import nn

from digits import digits_cnn, held_out_digits, training_digits
from modelkeep import Data, Estimate, Model
from modelkeep.audit.inversion import CheckInversion, Likeness, judge


def stored_examples(members: Data) -> Model:
    """A network whose weights are one training example of each class: what it takes for a class is that example."""
    rows = [int(torch.nonzero(members.y == label)[0]) for label in range(10)]
    head = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    layer = head[1]
    assert isinstance(layer, nn.Linear)
    with torch.no_grad():
        layer.weight.copy_(members.x[rows].flatten(1) - 0.5)
        layer.bias.zero_()
    return Model(head, input_shape=(1, 8, 8), classes=members.classes)


def test_examples_that_stand_in_the_weights_are_seen() -> None:
    members = training_digits().sample(60, 0)
    section = CheckInversion(train=members, steps=32)(stored_examples(members), held_out_digits(), seed=0)
    (finding,) = section.findings
    assert (finding.id, finding.severity) == ("inversion.training-examples", "medium")
    assert section.measures[0].estimate.value == 1.0
    assert section.measures[0].estimate.n == 10
    assert finding.evidence
    assert finding.queries == 2 * 40 * 32


def test_a_network_that_learned_its_task_is_not_said_to_show_training_examples() -> None:
    section = CheckInversion(train=training_digits(), steps=32)(digits_cnn(), held_out_digits(), seed=0)
    (finding,) = section.findings
    assert finding.id in ("inversion.class-looks", "inversion.nothing-shown")


def test_without_training_data_or_with_few_classes_nothing_good_is_said() -> None:
    (finding,) = CheckInversion(steps=1)(digits_cnn(), held_out_digits(), seed=0).findings
    assert (finding.id, finding.status) == ("inversion.nothing-shown", "inconclusive")
    few = judge(Likeness(Estimate.rate(0, 40), 0.3, Estimate.rate(3, 3, 0.99)), 50)
    assert few.id == "inversion.unclear"


def test_tables_and_inputs_without_a_range_are_refused_in_a_sentence() -> None:
    check, table = CheckInversion(), Data(torch.rand(9, 4), torch.zeros(9).long(), ("a", "b"))
    model = Model(nn.Linear(4, 2), input_shape=(4,), classes=2)
    assert "pictures" in check.obstacle(model, table)
    assert check.obstacle(digits_cnn(), held_out_digits()) == ""
    assert check.cost(digits_cnn(), held_out_digits()).passes == 2 * 40 * 128
