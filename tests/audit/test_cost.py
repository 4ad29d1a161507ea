"""Costs are what is really spent."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from modelkeep import Data, Model
from modelkeep.audit import Settings
from modelkeep.audit.cost import Cost, HasCost, measure_pace
from modelkeep.zoo.architectures import small_cnn


class Flops(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts floating-point operations by torch's own table, those of gradients included."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        counted = flop_registry.get(func._overloadpacket)
        if counted is not None:
            self.count += counted(*args, **(kwargs or {}), out_val=made)
        return made


@pytest.fixture(scope="module")
def subject() -> tuple[Model, Data]:
    """A network that is right on pictures of its own choice."""
    torch.manual_seed(5)  # of its classes, three occur often
    model = Model(small_cnn((3, 16, 16), 10), input_shape=(3, 16, 16), classes=10)
    x = torch.rand(40, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    x[20:] *= 0.3
    return model, Data(x, model.predict(x), model.classes, bounds=(0.0, 1.0))


@pytest.mark.parametrize("name", ["accuracy", "robustness", "certification", "influence", "amplification", "shortcuts"])
def test_the_passes_that_a_check_declares_are_those_that_it_takes(subject: tuple[Model, Data], name: str) -> None:
    model, data = subject
    with Flops() as one:
        model.logits(data.x[:1])
    check = Settings(examples=40, steps=3, checks=(name,)).list_checks()[name]
    assert isinstance(check, HasCost)
    with Flops() as whole:
        check(model, data, seed=0)
    # An attack stops where it has won, and a search where nothing is to be found: then it takes less.
    assert whole.count / one.count / 1.5 < check.cost(model, data).passes < 4 * max(whole.count / one.count, len(data))


def test_the_pace_of_a_network_grows_with_its_size(subject: tuple[Model, Data]) -> None:
    model, data = subject
    pace = measure_pace(model, data)
    assert 0 < pace.per_pass < 10
    assert 0 < pace.per_product < 1e-3
    assert pace.seconds(Cost(2, 3, seconds=7.0)) == pytest.approx(2 * pace.per_pass + 3 * pace.per_product + 7.5)


def test_a_model_that_only_answers_is_asked_once() -> None:
    asked = []

    def answer(rows: Any) -> Any:
        asked.append(len(rows))
        return torch.stack([torch.as_tensor(rows[:, 0]), 1 - torch.as_tensor(rows[:, 0])], dim=1).numpy()

    model = Model.answering(answer, input_shape=(3,), classes=2, bounds=(0, 1))
    asked.clear()
    measure_pace(model, Data(torch.rand(9, 3), torch.zeros(9, dtype=torch.int64), model.classes))
    assert sum(asked) == 4
