"""DDN comes within a few percent of the smallest change where there is a closed form."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack.minimum_norm.ddn import DDN
from modelkeep.core.errors import InputError


def linear_model(scale: float = 1.0, bounds: tuple[float, float] | None = None) -> Model:
    layer = nn.Linear(12, 3)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(3, 12, generator=torch.Generator().manual_seed(0)) / scale)
        layer.bias.copy_(torch.tensor([0.1, 0.0, -0.1]))
    return Model(nn.Sequential(nn.Flatten(), layer), input_shape=(1, 3, 4), classes=3, bounds=bounds)


def data_for(model: Model, scale: float = 1.0) -> Data:
    x = scale * torch.rand(60, 1, 3, 4, generator=torch.Generator().manual_seed(1))
    return Data(x, model.predict(x), model.classes)


def distances(model: Model, data: Data) -> torch.Tensor:
    w: torch.Tensor = model.module.get_parameter("1.weight").detach()
    logits = model.logits(data.x)
    lengths: torch.Tensor = (w[data.y][:, None] - w).norm(dim=2)
    ahead = logits.gather(1, data.y[:, None]) - logits
    return (ahead / lengths).scatter(1, data.y[:, None], torch.inf).amin(dim=1)


def test_on_a_linear_model_it_finds_the_nearest_boundary() -> None:
    model = linear_model()
    data = data_for(model)
    found = DDN()(model, data, seed=0)
    assert found.success.all()
    distance = distances(model, data)
    ratio = (found.distance / distance)[distance > 0.1 * distance.median()]
    assert float(ratio.min()) > 0.999
    assert float(ratio.median()) < 1.01
    assert float(ratio.max()) < 1.1


def test_its_first_step_is_as_wide_as_the_bounds() -> None:
    """The same model and data in units of 1/255 are attacked in the same way."""
    plain, scaled = linear_model(bounds=(0.0, 1.0)), linear_model(255.0, bounds=(0.0, 255.0))
    found = DDN(steps=40)(plain, data_for(plain), seed=0)
    also = DDN(steps=40)(scaled, data_for(scaled, 255.0), seed=0)
    torch.testing.assert_close(255 * found.distance, also.distance, rtol=1e-2, atol=1e-2)


def test_bounds_target_and_mask_are_kept() -> None:
    model = linear_model(bounds=(0.0, 1.0))
    data = data_for(model)
    mask = torch.ones(1, 3, 4, dtype=torch.bool)
    mask[:, 0] = False
    found = DDN(target="2", mask=mask)(model, data, seed=0)
    assert torch.equal(found.success, found.after == 2)
    assert int((found.success & (found.before != 2)).sum()) > 5
    assert torch.equal(found.adversarial[:, :, 0], data.x[:, :, 0])
    assert found.adversarial.min() >= 0
    assert found.adversarial.max() <= 1
    assert torch.equal(found.adversarial[~found.success], data.x[~found.success])


def test_nonsense_is_refused() -> None:
    model = linear_model()
    data = data_for(model)
    with pytest.raises(InputError, match="'steps' parameter of DDN"):
        DDN(steps=0)(model, data, seed=0)
    with pytest.raises(InputError, match="'step_size' parameter of DDN"):
        DDN(step_size=-1.0)(model, data, seed=0)
    with pytest.raises(InputError, match="'gamma' parameter of DDN"):
        DDN(gamma=1.0)(model, data, seed=0)
