"""The boundary attack comes close to the nearest point of the other side, by labels only and within its queries."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack.query.boundary import _TRIES, Boundary
from modelkeep.core.errors import InputError


def linear(features: int, classes: int = 2, seed: int = 0) -> tuple[Model, Data]:
    torch.manual_seed(seed)
    model = Model(nn.Linear(features, classes), input_shape=(features,), classes=classes, bounds=None)
    x = torch.randn(40, features)
    return model, Data(x, model.predict(x), model.classes)


@pytest.mark.parametrize(("norm", "dual"), [("l2", 2), ("linf", 1)])
def test_comes_close_to_the_closed_form_on_a_linear_model(norm: str, dual: int) -> None:
    model, data = linear(20)
    weight = model.module.weight.detach().diff(dim=0)[0]  # type: ignore[operator]
    nearest = model.logits(data.x).diff(dim=1)[:, 0].abs() / weight.norm(p=dual)
    short, long = (Boundary(norm=norm, queries=queries)(model, data, seed=0) for queries in (300, 2500))  # type: ignore[arg-type]
    assert long.success.all()
    ratio = long.distance / nearest
    assert ratio.min() >= 1 - 1e-4  # nobody gets nearer than the nearest
    assert ratio.median() < 1.03
    assert ratio.max() < 1.1
    assert (short.distance / nearest).median() > ratio.median()  # what more queries are good for
    assert float(long.accuracy_at(float(nearest.min() / 2)).value) == 1


def test_towards_a_target_within_bounds_and_a_mask() -> None:
    torch.manual_seed(0)
    model = Model(nn.Sequential(nn.Flatten(), nn.Linear(25, 3)), input_shape=(1, 5, 5), classes=3)
    x = torch.rand(60, 1, 5, 5)
    with torch.no_grad():
        model.module.get_parameter("1.bias").sub_(model.logits(x).mean(dim=0))
    data = Data(x, model.predict(x), model.classes)
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[0] = False
    found = Boundary(target="2", mask=mask, queries=300)(model, data, seed=0)
    moved = found.success & (data.y != 2)
    assert moved.sum() > 10
    assert (model.predict(found.adversarial[moved]) == 2).all()
    assert torch.equal(found.adversarial[:, :, 0], data.x[:, :, 0])
    assert found.adversarial.min() >= 0
    assert found.adversarial.max() <= 1
    again = Boundary(target="2", mask=mask, queries=300)(model, data, seed=0)
    assert torch.equal(found.adversarial, again.adversarial)


class Answering(nn.Module):
    """Says class 1 where the first value is above a half; refuses gradients and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert not x.requires_grad
        assert not torch.is_grad_enabled()
        self.asked += len(x)
        first = x.flatten(1)[:, 0]
        return torch.stack([torch.zeros_like(first), 3 * torch.sign(first - 0.5)], dim=1)  # nothing but the label


@pytest.mark.parametrize("queries", [100, 137, 400])
def test_sees_labels_only_and_keeps_to_its_queries(queries: int) -> None:
    module = Answering()
    model = Model(module, input_shape=(3,), classes=2)
    x = torch.rand(30, 3, generator=torch.Generator().manual_seed(0))
    data = Data(x, model.predict(x), model.classes)
    module.asked = 0
    found = Boundary(queries=queries, batch_size=16)(model, data, seed=0)
    assert found.success.all()
    assert 0.5 * 30 * queries < found.queries <= 30 * queries
    assert module.asked - found.queries <= 4 * len(data)  # the frame's own passes
    assert ((found.distance - (x[:, 0] - 0.5).abs()) / found.distance).median() < (0.2 if queries < 400 else 0.02)


def test_starts_at_noise_where_no_example_helps() -> None:
    model = Model(Answering(), input_shape=(3,), classes=2)
    data = Data(torch.rand(10, 3) / 2.1, torch.zeros(10, dtype=torch.int64), model.classes)  # all of one class
    assert Boundary(queries=200)(model, data, seed=0).success.all()


def test_where_no_start_is_found_the_original_comes_back() -> None:
    class Stubborn(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tensor([3.0, 0.0]).expand(len(x), 2)

    model = Model(Stubborn(), input_shape=(3,), classes=2)
    data = Data(torch.rand(5, 3), torch.zeros(5, dtype=torch.int64), model.classes)
    found = Boundary(queries=200)(model, data, seed=0)
    assert not found.success.any()
    assert torch.equal(found.adversarial, data.x)
    assert found.queries == 5 * _TRIES


def test_nonsense_is_refused() -> None:
    model, data = linear(3)
    for settings in ({"queries": 10}, {"norm": "l1"}):
        with pytest.raises(InputError, match="parameter of Boundary"):
            Boundary(**settings)(model, data, seed=0)
