"""JSMA changes few values, and those that matter."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack.minimum_norm.jsma import JSMA
from modelkeep.core.errors import InputError


def weighted(rows: list[list[float]], bias: list[float]) -> Model:
    layer = nn.Linear(len(rows[0]), len(rows))
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(rows))
        layer.bias.copy_(torch.tensor(bias))
    return Model(layer, input_shape=(len(rows[0]),), classes=len(rows))


def random_model(classes: int = 3) -> Model:
    generator = torch.Generator().manual_seed(0)
    return weighted(torch.randn(classes, 12, generator=generator).tolist(), [0.0] * classes)


def data_for(model: Model, n: int = 40) -> Data:
    x = torch.rand(n, *model.input_shape, generator=torch.Generator().manual_seed(1))
    return Data(x, model.predict(x), model.classes)


@pytest.mark.parametrize("pairs", [True, False])
def test_the_most_salient_values_are_changed_in_the_right_direction(pairs: bool) -> None:
    """Class 1 gains most by raising the third value and lowering the first; the others barely matter."""
    model = weighted([[3.0, 0.1, -2.0, 0.0, 0.0], [-3.0, 0.1, 2.0, 0.0, 0.0]], [0.0, 0.0])
    x = torch.tensor([[0.9, 0.5, 0.1, 0.5, 0.5], [0.3, 0.5, 0.1, 0.5, 0.5]])
    found = JSMA(max_share=1.0, pairs=pairs)(model, Data(x, torch.tensor([0, 0]), model.classes), seed=0)
    assert found.success.all()
    change = found.adversarial - x
    assert (change[:, 0] <= 0).all()
    assert (change[:, 2] >= 0).all()
    if not pairs:
        # Down by 0.9 costs class 0 more than class 0 is ahead by.
        torch.testing.assert_close(change[0], torch.tensor([-0.9, 0.0, 0.0, 0.0, 0.0]))
        assert found.distance.tolist() == [1, 1]


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("classes", [2, 3, 12])
def test_the_budget_the_mask_and_the_target_are_respected(classes: int, pairs: bool) -> None:
    model = random_model(classes)
    data = data_for(model)
    mask = torch.arange(12) < 9
    found = JSMA(max_share=0.5, pairs=pairs, target="1", mask=mask)(model, data, seed=0)
    assert torch.equal(found.success, model.predict(found.adversarial) == 1)
    assert torch.equal(found.adversarial[~found.success], data.x[~found.success])
    assert torch.equal(found.adversarial[:, 9:], data.x[:, 9:])
    assert float(found.distance.max()) <= 6
    assert int((found.success & (found.distance > 0)).sum()) > 1
    again = JSMA(max_share=0.5, pairs=pairs, target="1", mask=mask)(model, data, seed=0)
    assert torch.equal(found.adversarial, again.adversarial)


def test_small_steps_change_values_by_theta() -> None:
    model = random_model()
    data = data_for(model)
    found = JSMA(theta=0.25, max_share=1.0)(model, data, seed=0)
    assert float((found.adversarial - data.x).abs().max()) <= 0.25 + 1e-6
    assert found.success.any()


def test_without_bounds_theta_is_in_the_owners_units() -> None:
    bounded = random_model()
    model = Model(bounded.module, input_shape=(12,), classes=3, bounds=None)
    data = data_for(model)
    found = JSMA(theta=3.0, max_share=1.0)(model, data, seed=0)
    assert found.success.all()
    change = (found.adversarial - data.x).abs()
    torch.testing.assert_close(change[change > 0], torch.full_like(change[change > 0], 3.0))


def test_nonsense_is_refused() -> None:
    model = random_model()
    for settings in ({"theta": 0.0}, {"theta": -1.0}, {"max_share": 0.0}):
        with pytest.raises(InputError, match="parameter of JSMA"):
            JSMA(**settings)(model, data_for(model), seed=0)  # type: ignore[arg-type]
