"""ILCM goes to the least likely class, and without a radius on beyond it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack.gradient.ilcm import ILCM
from modelkeep.core.errors import InputError
from modelkeep.core.norms import Norm


def test_the_target_is_the_class_with_the_smallest_logit(digits_net: tuple[Model, Data]) -> None:
    model, data = digits_net
    found = ILCM(radius=0.3)(model, data, seed=0)
    least = model.logits(data.x).argmin(dim=1)
    assert 10 < int(found.success.sum()) < 120
    assert torch.equal(found.after[found.success], least[found.success])
    assert torch.equal(found.success, model.predict(found.adversarial) == least)
    assert float(found.distance.max()) <= 0.3
    assert "the least likely class" in str(found)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_without_a_radius_it_goes_on_after_the_class_is_reached(digits_net: tuple[Model, Data], norm: Norm) -> None:
    model, data = digits_net
    not_yet = data.y != 8
    odds = []
    for steps in (10, 40):
        # The same step size: more steps go further.
        size = {"linf": 0.025, "l2": 0.2, "l1": 1.6}[norm]
        found = ILCM(norm=norm, steps=steps, step_size=size, target="8")(model, data, seed=0)
        logits = model.logits(found.adversarial[not_yet]).double()
        odds.append(logits[:, 8] - torch.cat([logits[:, :8], logits[:, 9:]], dim=1).logsumexp(dim=1))
        assert float(found.success.double().mean()) > 0.9  # already after 10 steps
    assert float(odds[1].median()) > float(odds[0].median()) + 1
    assert 0 <= float(found.adversarial.min())
    assert float(found.adversarial.max()) <= 1


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_the_default_step_crosses_the_bounds_once(norm: Norm) -> None:
    """On a linear model with equal weights all values go up by the same amount and meet the bound in the last step."""
    layer = nn.Linear(5, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[-1.0] * 5, [1.0] * 5]))
    model = Model(layer, input_shape=(5,), classes=("down", "up"), bounds=(-3.0, 1.0))
    data = Data(torch.full((1, 5), -3.0), torch.zeros(1, dtype=torch.int64), model.classes)
    found = ILCM(norm=norm, steps=20 if norm == "l1" else 8, target="up")(model, data, seed=0)
    if norm == "l1":  # a step there changes one of the five values, until it is at its bound
        assert bool(torch.isin(found.adversarial, torch.tensor([-3.0, 1.0])).all())
    else:
        torch.testing.assert_close(found.adversarial, torch.full((1, 5), 1.0))


def test_a_mask_holds_without_a_radius(digits_net: tuple[Model, Data]) -> None:
    model, data = digits_net
    mask = torch.zeros(1, 8, 8, dtype=torch.bool)
    mask[:, :4] = True
    found = ILCM(target="8", mask=mask)(model, data, seed=0)
    assert torch.equal(found.adversarial[:, :, 4:], data.x[:, :, 4:])
    assert int(found.success.sum()) > 20


def test_without_bounds_the_step_must_be_given() -> None:
    model = Model(nn.Linear(5, 2), input_shape=(5,), classes=2, bounds=None)
    data = Data(torch.rand(3, 5), torch.zeros(3, dtype=torch.int64), model.classes)
    with pytest.raises(InputError, match="ILCM needs a step_size"):
        ILCM()(model, data, seed=0)
    assert ILCM(step_size=0.5)(model, data, seed=0).radius is None
