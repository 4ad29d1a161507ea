"""The steps of a theft: the test data must fit the target, and labels of other classes are not taken for its own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.access import Scores
from modelkeep.core.errors import InputError
from modelkeep.extract.attacks import Attack
from modelkeep.extract.extraction import Extract
from modelkeep.extract.knowledge import Knowledge
from modelkeep.extract.strategies import Harvest
from modelkeep.extract.theft import Judge, Theft


@pytest.fixture
def target() -> Scores:
    return Scores(Model(nn.Linear(4, 3), input_shape=(4,), classes=3))


@pytest.mark.parametrize(("width", "classes"), [(5, 3), (4, 2), (4, 4)], ids=["inputs", "fewer", "more"])
def test_test_data_must_fit(target: Scores, width: int, classes: int) -> None:
    other = Data(torch.rand(4, width), torch.tensor([0, 1, 0, 1]), tuple("abcd"[:classes]))
    with pytest.raises(InputError, match=rf"must fit the target.*has inputs \({width},\) and {classes} classes"):
        Judge(target, other, None)


class Looking(Attack):
    """Recovers nothing, and remembers what it was told."""

    def __init__(self) -> None:
        self.labels = torch.empty(0)

    def recover(self, answers: torch.Tensor, knowledge: Knowledge) -> torch.Tensor:
        self.labels = knowledge.labels
        return answers


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_the_labels_of_the_pool_count_only_where_it_has_as_many_classes(target: Scores, classes: int) -> None:
    pool = Data(torch.rand(6, 4), torch.zeros(6, dtype=torch.int64), tuple("abcd"[:classes]))
    attack = Looking()
    answers = torch.tensor([[0.1, 0.2, 0.7]]).repeat(6, 1)
    Theft(Extract(pool, attack=attack), target, seed=0).recover(Harvest(pool.x, answers, pool.y, classes))
    assert attack.labels.tolist() == [0 if classes == 3 else 2] * 6
