"""DeepFool goes to the nearest boundary, and no further."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack.minimum_norm.deepfool import DeepFool
from modelkeep.core.errors import InputError


def linear_model(classes: int = 3, bounds: tuple[float, float] | None = None) -> Model:
    layer = nn.Linear(6, classes)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    return Model(layer, input_shape=(6,), classes=classes, bounds=bounds)


def data_for(model: Model, n: int = 60) -> Data:
    x = torch.rand(n, *model.input_shape, generator=torch.Generator().manual_seed(1))
    return Data(x, model.predict(x), model.classes)


def exact_distances(model: Model, data: Data, dual: int) -> torch.Tensor:
    """Of a linear model: the smallest gap over the dual norm of its normal, `(n,)`."""
    assert isinstance(model.module, nn.Linear)
    weight, logits = model.module.weight.detach(), model.logits(data.x)
    gaps = logits.gather(1, data.y[:, None]) - logits
    normals = (weight[data.y][:, None] - weight[None]).norm(p=dual, dim=2)
    distances: torch.Tensor = gaps / normals
    return distances.scatter(1, data.y[:, None], torch.inf).amin(dim=1)


@pytest.mark.parametrize("classes", [2, 3, 12])
@pytest.mark.parametrize(("norm", "dual"), [("l2", 2), ("linf", 1)])
def test_on_a_linear_model_the_distance_is_the_closed_form(
    norm: Literal["l2", "linf"], dual: int, classes: int
) -> None:
    model = linear_model(classes)
    data = data_for(model)
    found = DeepFool(norm=norm, candidates=classes)(model, data, seed=0)
    exact = exact_distances(model, data, dual).double()
    assert found.success.all()
    ratio = found.distance / exact
    assert float(ratio.min()) > 0.999
    # The answer must lead by more than rounding, which is a lot only where the boundary is close by.
    assert float(ratio[exact > 0.05].max()) < 1.02


def test_a_target_and_a_mask_are_respected() -> None:
    model = linear_model(bounds=(0.0, 1.0))
    data = data_for(model)
    mask = torch.tensor([True, True, True, True, False, True])
    found = DeepFool(target="1", mask=mask)(model, data, seed=0)
    assert torch.equal(found.success, model.predict(found.adversarial) == 1)
    assert torch.equal(found.adversarial[:, 4], data.x[:, 4])
    assert torch.equal(found.adversarial[~found.success], data.x[~found.success])
    moved = found.distance > 0
    assert int((found.success & moved).sum()) > 10
    assert 0 <= float(found.adversarial.min())
    assert float(found.adversarial.max()) <= 1


def test_values_at_their_bounds_are_left_out_of_the_step() -> None:
    """Two values at 0 that would have to go below: only the third can do the work, and its way is exact."""
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 1.0, 0.5], [0.0, 0.0, 0.0]]))
        layer.bias.zero_()
    model = Model(layer, input_shape=(3,), classes=2)
    x = torch.tensor([[0.0, 0.0, 0.6]])
    with torch.no_grad():
        layer.bias[1] = 0.1
    found = DeepFool()(model, Data(x, torch.tensor([0]), model.classes), seed=0)
    assert float(found.distance) == pytest.approx(0.4, rel=0.02)


def test_a_flat_model_is_suspected_and_left_alone() -> None:
    class Flat(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 0 * x[:, :2] + torch.tensor([1.0, 0.5])

    model = Model(Flat(), input_shape=(6,), classes=2)
    data = data_for(model, 12)
    found = DeepFool()(model, data, seed=0)
    assert not found.success.any()
    assert torch.equal(found.adversarial, data.x)
    assert "masked gradients suspected" in found.health[0]


def test_nonsense_is_refused() -> None:
    model = linear_model()
    for settings in ({"steps": 0}, {"overshoot": 0.0}, {"candidates": 1}, {"norm": "l1"}):
        with pytest.raises(InputError, match="parameter of"):
            DeepFool(**settings)(model, data_for(model), seed=0)
