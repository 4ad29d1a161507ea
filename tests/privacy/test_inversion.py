"""Model inversion: the corner that a linear network prefers, starts that differ, and the example that is most like."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.errors import InputError
from modelkeep.explain.meaning.search_space import Transformations
from modelkeep.privacy import InvertModel


def linear(shape: tuple[int, ...] = (1, 8, 8)) -> tuple[Model, torch.Tensor]:
    torch.manual_seed(0)
    size = int(torch.tensor(shape).prod())
    layer = nn.Linear(size, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(0.1 * torch.randn(2, size).sign())  # a descent of fixed length hardly moves a small weight
        layer.weight[1] = -layer.weight[0]
    return Model(nn.Sequential(nn.Flatten(), layer), input_shape=shape, classes=("a", "b")), layer.weight.detach()


def test_of_a_linear_network_the_reconstruction_is_the_corner_of_the_box() -> None:
    model, weight = linear()
    found = InvertModel(steps=300)(model)
    corner = ((weight[0] - weight[1]) > 0).float().view(1, 8, 8)
    assert torch.equal(found.x[0].round(), corner)
    assert torch.equal(found.x[1].round(), 1 - corner)
    assert found.believed.value == 1.0
    assert float(found.confidence.min()) > 0.9


def test_each_reconstruction_of_a_class_has_a_start_of_its_own_and_the_seed_repeats_it() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))
    model = Model(net, input_shape=(1, 8, 8), classes=3)
    method = InvertModel(per_class=3, steps=20)
    found = method(model, seed=1)
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert not torch.equal(found.x[0], found.x[1])
    assert torch.equal(method(model, seed=1).x, found.x)
    blank = InvertModel(per_class=2, steps=20, start="blank")(model, seed=1)
    assert torch.equal(blank.x[0], blank.x[1]), "from one start, descent gives one picture"
    still = InvertModel(steps=1, step_size=1e-9, start="grey")(model, seed=1)
    torch.testing.assert_close(still.x, torch.full((3, 1, 8, 8), 0.5))


@pytest.mark.parametrize(
    "method",
    [
        InvertModel(steps=60, parametrisation="fourier"),
        InvertModel(steps=60, parametrisation="fourier", transformations=Transformations(), weight_noise=0.1),
        InvertModel(steps=60, weight_noise=0.2),
    ],
)
def test_every_technique_stays_in_the_range_and_finds_the_class(method: InvertModel) -> None:
    model, _ = linear()
    before = {name: weight.clone() for name, weight in model.module.state_dict().items()}
    found = method(model, seed=2)
    assert found.believed.value == 1.0
    assert float(found.x.min()) >= 0
    assert float(found.x.max()) <= 1
    for name, weight in model.module.state_dict().items():
        assert torch.equal(weight, before[name])


def test_the_most_similar_example_is_named() -> None:
    model, weight = linear()
    corner = ((weight[0] - weight[1]) > 0).float().view(1, 1, 8, 8)
    x = torch.cat([torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0)), corner, 1 - corner])
    data = Data(x, torch.tensor([0, 1, 0, 1, 0, 1]), ("a", "b"), bounds=(0, 1))
    found = InvertModel(steps=300)(model, data)
    assert found.example is not None
    assert found.example.tolist() == [4, 5]
    assert "example 4" in dict(found.rows())["most like an example"] or "example 5" in str(found.rows())
    assert found.draw() is not None


def test_what_cannot_be_inverted_is_refused() -> None:
    table, _ = linear((5,))
    with pytest.raises(InputError, match="for pictures"):
        InvertModel(parametrisation="fourier")(table)
    boundless = Model(nn.Linear(5, 2), input_shape=(5,), classes=2, bounds=None)
    with pytest.raises(InputError, match="bounds"):
        InvertModel()(boundless)
