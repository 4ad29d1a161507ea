"""What an adaptive attacker knows: whether something is hidden, and what the defence would have answered."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Model
from modelkeep.core.access import Scores
from modelkeep.core.errors import InputError
from modelkeep.extract.knowledge import Knowledge
from modelkeep.guard import Defence, ModelGuardS, ModelGuardW, NoDefence

CLEAN = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2]])


def knowledge(defence: Defence | None) -> Knowledge:
    target = Scores(Model(nn.Linear(2, 3), input_shape=(2,), classes=3))
    state = None if defence is None else defence.initial(3)
    return Knowledge(target, torch.zeros(2, 2), torch.zeros(2), 0, defence, state)


def test_nothing_is_hidden_where_no_budget_is() -> None:
    assert knowledge(NoDefence()).nothing_is_hidden
    assert knowledge(ModelGuardW(0.0)).nothing_is_hidden
    assert not knowledge(ModelGuardW(0.1)).nothing_is_hidden
    assert not knowledge(None).nothing_is_hidden  # it is not known


def test_the_perturbation_goes_on_from_a_copy_of_the_state() -> None:
    known = knowledge(ModelGuardS(1.0))
    answers = known.perturbation()(CLEAN, torch.zeros(2, 2))
    torch.testing.assert_close(answers, CLEAN[[0, 0]], atol=1e-6, rtol=0)  # the first is the second's centroid
    assert known.state.length(0) == 0
    with pytest.raises(InputError, match="must know the defence"):
        knowledge(None).perturbation()
