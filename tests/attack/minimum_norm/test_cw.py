"""Carlini & Wagner's attacks find the smallest change in three norms."""

from __future__ import annotations

import warnings
from functools import cache
from itertools import combinations, product
from typing import Literal

import pytest
import torch
from torch import nn

from attack.peers import peer
from digits import digits_cnn, held_out_digits
from modelkeep import Data, Model
from modelkeep.attack.minimum_norm.cw import CW
from modelkeep.attack.minimum_norm.deepfool import DeepFool
from modelkeep.core.errors import InputError


def linear_model(classes: int, features: int = 6, bounds: tuple[float, float] | None = None, seed: int = 0) -> Model:
    layer = nn.Linear(features, classes)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)))
    return Model(layer, input_shape=(features,), classes=classes, bounds=bounds)


def data_for(model: Model, n: int = 40) -> Data:
    x = torch.rand(n, *model.input_shape, generator=torch.Generator().manual_seed(1))
    return Data(x, model.predict(x), model.classes)


@cache
def trained() -> tuple[Model, Data]:
    """A small network that knows the digits, and some it has not seen."""
    model, test = digits_cnn(), held_out_digits().first(32)
    return model, Data(test.x, model.predict(test.x), test.classes)


@pytest.mark.parametrize("classes", [2, 3, 12])
@pytest.mark.parametrize(("norm", "dual"), [("l2", 2), ("linf", 1)])
def test_on_a_linear_model_the_distance_is_the_closed_form(
    norm: Literal["l2", "linf"], dual: int, classes: int
) -> None:
    """Without bounds: the smallest gap over the dual norm of its normal."""
    model = linear_model(classes)
    data = data_for(model)
    found = CW(norm=norm)(model, data, seed=0)
    assert isinstance(model.module, nn.Linear)
    weight, logits = model.module.weight.detach(), model.logits(data.x)
    normals = (weight[data.y][:, None] - weight[None]).norm(p=dual, dim=2)
    distances = (logits.gather(1, data.y[:, None]) - logits) / normals
    exact = distances.scatter(1, data.y[:, None], torch.inf).amin(dim=1).double()
    assert found.success.all()
    ratio = found.distance / exact
    assert float(ratio.min()) > 0.999
    assert float(ratio[exact > 0.05].median()) < 1.02
    assert float(ratio[exact > 0.05].max()) < 1.25  # another class may be a little nearer than the one it went to


def test_in_l0_nothing_smaller_exists() -> None:
    """Brute force: with fewer values changed, no corner of the box is answered otherwise, so no point is."""
    model = linear_model(2, features=8, bounds=(0.0, 1.0), seed=3)
    data = data_for(model, 20)
    found = CW(norm="l0", steps=20)(model, data, seed=0)
    sizes = []
    for x, label in zip(data.x, data.y, strict=True):
        for size in range(1, 9):
            corners = []
            for where in combinations(range(8), size):
                for values in product((0.0, 1.0), repeat=size):
                    corner = x.clone()
                    corner[list(where)] = torch.tensor(values)
                    corners.append(corner)
            if (model.predict(torch.stack(corners)) != label).any():
                sizes.append(size)
                break
        else:
            sizes.append(0)
    exact = torch.tensor(sizes, dtype=torch.float64)
    assert torch.equal(found.success, exact > 0)
    assert (found.distance >= exact).all()
    # Giving back what matters least, one after the other, is greedy: it is not always the best.
    assert float((found.distance == exact).double().mean()) >= 0.9
    assert float(exact.max()) >= 2


def test_pixels_and_not_channels_are_counted() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(3 * 4, 2))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(5)))
    model = Model(module, input_shape=(3, 2, 2), classes=2)
    data = data_for(model, 20)
    found = CW(norm="l0", steps=20)(model, data, seed=0)
    changed = (found.adversarial != data.x).any(dim=1).flatten(1).sum(dim=1)
    assert torch.equal(found.distance, changed.double())
    assert found.success.any()


def test_pixels_at_their_bounds_can_move() -> None:
    """All originals are exactly 0 or 1, where tanh's inverse is infinite."""
    model = linear_model(3, bounds=(0.0, 1.0))
    x = (torch.rand(40, 6, generator=torch.Generator().manual_seed(2)) > 0.5).float()
    data = Data(x, model.predict(x), model.classes)
    found = CW()(model, data, seed=0)
    assert float(found.success.double().mean()) > 0.9
    assert 0 <= float(found.adversarial.min())
    assert float(found.adversarial.max()) <= 1


def test_all_other_logits_may_be_negative() -> None:
    model = linear_model(3)
    with torch.no_grad():
        model.module.get_parameter("bias").sub_(100)
    data = data_for(model)
    shifted = CW()(model, data, seed=0)
    with torch.no_grad():
        model.module.get_parameter("bias").add_(100)
    plain = CW()(model, data, seed=0)
    far = plain.distance > 0.2  # rounding is a share of the largest logit, and counts most close to the boundary
    torch.testing.assert_close(shifted.distance[far], plain.distance[far], rtol=0.1, atol=0.01)


@pytest.mark.parametrize("norm", ["l2", "linf", "l0"])
def test_successes_are_real_failures_are_the_originals_and_the_mask_holds(norm: Literal["l2", "linf", "l0"]) -> None:
    model, data = trained()
    data = data.first(8)
    mask = torch.zeros(1, 8, 8, dtype=torch.bool)
    mask[:, :3] = True
    found = CW(norm=norm, steps=15, binary_search_steps=2, mask=mask, target="8")(model, data, seed=0)
    assert torch.equal(found.success, model.predict(found.adversarial) == 8)
    assert torch.equal(found.adversarial[~found.success], data.x[~found.success])
    assert torch.equal(found.adversarial[..., 3:, :], data.x[..., 3:, :])
    assert int((found.success & (found.distance > 0)).sum()) > 0
    again = CW(norm=norm, steps=15, binary_search_steps=2, mask=mask, target="8")(model, data, seed=0)
    assert torch.equal(found.adversarial, again.adversarial)


def test_confidence_is_the_lead() -> None:
    model, data = trained()
    found = CW(confidence=2.0, steps=30, binary_search_steps=2)(model, data, seed=0)
    logits = model.logits(found.adversarial[found.success])
    label = data.y[found.success][:, None]
    others = logits.scatter(1, label, -torch.inf).amax(dim=1)
    assert float((others - logits.gather(1, label)[:, 0]).min()) > 1.99
    assert float(found.success.double().mean()) > 0.9


def test_a_constant_that_is_far_off_is_corrected() -> None:
    model, data = trained()
    fitting = CW()(model, data, seed=0)
    for constant in (1e-4, 1e4):
        found = CW(initial_constant=constant)(model, data, seed=0)
        assert found.success.all()
        assert float(found.distance.mean()) < 1.05 * float(fitting.distance.mean())


def test_it_is_nearer_than_deepfool() -> None:
    model, data = trained()
    for norm in ("l2", "linf"):
        ours, other = CW(norm=norm)(model, data, seed=0), DeepFool(norm=norm)(model, data, seed=0)
        assert ours.success.all()
        assert float(ours.distance.mean()) < float(other.distance.mean())


def test_peers_find_nothing_nearer() -> None:
    foolbox = peer("foolbox")
    model, data = trained()
    ours = CW()(model, data, seed=0)
    attack = foolbox.attacks.L2CarliniWagnerAttack(binary_search_steps=6, steps=60, stepsize=0.1, initial_const=0.01)
    with warnings.catch_warnings(action="ignore"):
        wrapped = foolbox.PyTorchModel(model.module, bounds=(0, 1))
        _, theirs, _ = attack(wrapped, data.x, data.y, epsilons=None)
    both = ours.success & (model.predict(theirs) != data.y)
    assert int(both.sum()) > 20
    distance = (theirs - data.x).flatten(1).norm(dim=1)
    assert float(ours.distance[both].mean()) <= float(distance[both].mean())
    assert float((ours.distance <= 1.05 * distance)[both].double().mean()) > 0.9


def test_nonsense_is_refused() -> None:
    model = linear_model(2)
    for settings in (
        {"steps": 0},
        {"binary_search_steps": 0},
        {"confidence": -1.0},
        {"initial_constant": 0.0},
        {"initial_constant": 1.0, "norm": "linf"},
        {"learning_rate": 0.0},
        {"norm": "l1"},
    ):
        with pytest.raises(InputError, match="parameter of CW"):
            CW(**settings)(model, data_for(model), seed=0)
