"""Examples that are written into the first layer are seen there; a layer that never sees an input is not looked at."""

from __future__ import annotations

import torch
from torch import nn

from digits import digits_cnn, digits_dense, held_out_digits, training_digits
from modelkeep import Data, Model
from modelkeep.audit.weight_leakage import CheckWeightLeakage


def written_down(members: Data) -> Model:
    """A network whose first layer holds sixty training examples."""
    first, last = nn.Linear(64, 60), nn.Linear(60, 10)
    with torch.no_grad():
        first.weight.copy_(members.x[:60].flatten(1))
    return Model(nn.Sequential(nn.Flatten(), first, nn.ReLU(), last), input_shape=(1, 8, 8), classes=members.classes)


def test_examples_in_the_weights_are_named_with_their_pictures() -> None:
    members = training_digits().sample(200, 0)
    section = CheckWeightLeakage(train=members)(written_down(members), held_out_digits().sample(200, 0), seed=0)
    (finding,) = section.findings
    assert (finding.id, finding.severity) == ("weight-leakage.training-examples", "high")
    assert finding.evidence
    assert finding.access == "weights"
    assert section.measures[0].estimate.low > 0.5


def test_a_network_that_learned_its_task_is_not_accused() -> None:
    members, others = training_digits().sample(200, 0), held_out_digits().sample(200, 0)
    (finding,) = CheckWeightLeakage(train=members)(digits_dense(), others, seed=0).findings
    assert finding.id == "weight-leakage.none-found"


def test_it_needs_training_data_and_a_layer_that_takes_the_input_itself() -> None:
    assert "--train TRAIN" in CheckWeightLeakage().obstacle(digits_dense(), held_out_digits())
    # The last layer of this CNN takes 64 numbers, as many as a digit has pixels, but they are no pixels.
    assert "takes the whole input" in CheckWeightLeakage(train=training_digits()).obstacle(
        digits_cnn(), held_out_digits()
    )
    table = Data(torch.rand(9, 4), torch.zeros(9).long(), ("a", "b"))
    assert "pictures" in CheckWeightLeakage().obstacle(Model(nn.Linear(4, 2), input_shape=(4,), classes=2), table)
