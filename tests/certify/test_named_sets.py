"""The classes that a guarantee names stand beneath their images."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.certify.certification import Certify
from modelkeep.certify.guarantees import RelaxedTopK
from modelkeep.certify.named_sets import NamedSets
from modelkeep.core.results import Result


def test_named_sets_stand_beneath_their_images() -> None:
    dense = nn.Linear(4, 3, bias=False)
    with torch.no_grad():
        dense.weight.copy_(torch.eye(3, 4))
    model = Model(nn.Sequential(nn.Flatten(), dense), input_shape=(1, 2, 2), classes=("bag", "coat", "shirt"))
    x = torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 0.9, 0], [0.5, 0.5, 0.5, 0]]).view(3, 1, 2, 2)
    data = Data(x, torch.tensor([0, 2, 1]), model.classes, bounds=(0.0, 1.0))
    found = NamedSets.of(Certify(radius=0.2, guarantee=RelaxedTopK(2))(model, data), data)
    assert found.sets.tolist() == [[True, False, False], [False, True, True], [False, False, False]]
    assert found.verified.value == pytest.approx(2 / 3)
    assert ("2 classes named", "1 inputs") in found.rows()
    beneath = [text.get_text() for ax in found.draw().axes for text in ax.texts]
    assert beneath == ["bag", "coat\nshirt", "(rejected)"]
    assert isinstance(Result.from_json(found.to_json()), NamedSets)
    assert "Certify(radius=0.2, guarantee=RelaxedTopK(k=2))" in found.python
