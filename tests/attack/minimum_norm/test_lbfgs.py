"""The attack by L-BFGS comes near the closest point."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack.minimum_norm.lbfgs import LBFGS
from modelkeep.core.errors import InputError


def linear_model(classes: int, bounds: tuple[float, float] | None = None) -> Model:
    layer = nn.Linear(6, classes)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    return Model(layer, input_shape=(6,), classes=classes, bounds=bounds)


def data_for(model: Model, n: int = 12) -> Data:
    x = torch.rand(n, *model.input_shape, generator=torch.Generator().manual_seed(1))
    return Data(x, model.predict(x), model.classes)


def test_between_two_classes_the_distance_is_the_closed_form() -> None:
    model = linear_model(2)
    data = data_for(model)
    found = LBFGS()(model, data, seed=0)
    assert isinstance(model.module, nn.Linear)
    logits, normal = model.logits(data.x), (model.module.weight[0] - model.module.weight[1]).detach()
    exact = ((logits[:, 0] - logits[:, 1]).abs() / normal.norm()).double()
    assert found.success.all()
    far = exact > 0.05
    ratio = found.distance[far] / exact[far]
    assert 0.999 < float(ratio.min())
    assert float(ratio.max()) < 1.05


def test_a_target_the_bounds_and_a_mask_are_respected() -> None:
    model = linear_model(3, bounds=(0.0, 1.0))
    data = data_for(model, 20)
    mask = torch.tensor([True, True, True, True, True, False])
    found = LBFGS(target="1", mask=mask)(model, data, seed=0)
    assert torch.equal(found.success, model.predict(found.adversarial) == 1)
    assert torch.equal(found.adversarial[~found.success], data.x[~found.success])
    assert torch.equal(found.adversarial[:, 5], data.x[:, 5])
    assert int((found.success & (found.distance > 0)).sum()) > 3
    assert 0 <= float(found.adversarial.min())
    assert float(found.adversarial.max()) <= 1


def test_nonsense_is_refused() -> None:
    model = linear_model(2)
    for settings in ({"steps": 0}, {"bisections": 0}, {"initial_constant": 0.0}):
        with pytest.raises(InputError, match="parameter of LBFGS"):
            LBFGS(**settings)(model, data_for(model), seed=0)
