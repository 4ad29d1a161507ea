"""Single hyperplanes: the weights themselves tell whether they came back, for about two queries per input."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Model
from modelkeep.core.access import Scores
from modelkeep.core.errors import ParameterError
from modelkeep.core.results import Result
from modelkeep.extract.parameters import Boundaries, uncover


def network(*hidden: int, dtype: torch.dtype = torch.float64) -> tuple[Model, torch.Tensor]:
    torch.manual_seed(0)
    widths = [784, *hidden]
    layers = [part for a, b in zip(widths, hidden, strict=False) for part in (nn.Linear(a, b), nn.ReLU())]
    module = nn.Sequential(nn.Flatten(), *layers, nn.Linear(widths[-1], 10)).to(dtype)
    first = module[1]
    assert isinstance(first, nn.Linear)
    return Model(module, input_shape=(1, 28, 28), classes=10), first.weight


def nearest_cosines(found: Boundaries, weight: torch.Tensor) -> torch.Tensor:
    best: torch.Tensor = torch.cosine_similarity(found.normals[:, None], weight.detach()[None], dim=2).abs().amax(dim=1)
    return best


def test_hyperplanes_come_back_for_two_queries_per_input() -> None:
    model, weight = network(100)
    view = Scores(model)
    found = uncover(view, attempts=8, seed=1)
    assert len(found.normals) == 8
    assert found.all_queries == view.queries
    assert found.per_input <= 2.1
    assert float(nearest_cosines(found, weight).min()) >= 0.9999
    assert found.cosines(weight).value == pytest.approx(float(nearest_cosines(found, weight).mean()), abs=1e-9)
    assert isinstance(Result.from_json(found.to_json()), Boundaries)


def test_offsets_are_those_of_the_units() -> None:
    model, weight = network(20)
    found = uncover(Scores(model), attempts=4, seed=0)
    bias = model.module[1].bias.detach()  # type: ignore[index]
    for normal, offset in zip(found.normals, found.offsets, strict=True):
        cosines = torch.cosine_similarity(normal[None], weight.detach(), dim=1)
        unit = int(cosines.abs().argmax())
        wanted = bias[unit] / weight[unit].detach().norm() * cosines[unit].sign()
        assert float(offset) == pytest.approx(float(wanted), abs=1e-3)


def test_of_a_deep_network_the_first_layer_is_told_from_the_others() -> None:
    model, weight = network(64, 64)
    found = uncover(Scores(model), attempts=12, seed=0)
    near = nearest_cosines(found, weight) > 0.9999
    assert torch.equal(found.first_layer, near)
    assert 0 < int(near.sum()) < len(near), "both kinds must occur for the test to mean something"


def test_where_nothing_bends_nothing_is_found() -> None:
    model = Model(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).double(), input_shape=(1, 28, 28), classes=10)
    found = uncover(Scores(model), attempts=3)
    assert len(found.normals) == 0
    assert "0 in 3 attempts" in str(found)


def test_without_an_attempt_there_is_nothing_to_do() -> None:
    with pytest.raises(ParameterError, match="attempts"):
        uncover(Scores(network(4)[0]), attempts=0)
