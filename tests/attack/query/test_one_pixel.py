"""One pixel finds what trying every pixel finds, sees scores only, and changes no more than it may."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack.query.one_pixel import OnePixel
from modelkeep.core.errors import InputError


def linear_images(seed: int = 0) -> tuple[Model, Data]:
    torch.manual_seed(seed)
    model = Model(nn.Sequential(nn.Flatten(), nn.Linear(3 * 16, 3)), input_shape=(3, 4, 4), classes=3)
    x = torch.rand(60, 3, 4, 4)
    return model, Data(x, model.predict(x), model.classes)


def best_lead(model: Model, data: Data) -> torch.Tensor:
    """How far the best other class can be brought ahead by one pixel: of a linear model, at a corner of its values."""
    best = torch.full((len(data),), -torch.inf)
    for place, corner in product(range(16), product([0.0, 1.0], repeat=3)):
        x = data.x.flatten(2).clone()
        x[:, :, place] = torch.tensor(corner)
        logits = model.logits(x.view_as(data.x))
        others = logits.scatter(1, data.y[:, None], -torch.inf).amax(dim=1)
        best = torch.maximum(best, others - logits.gather(1, data.y[:, None])[:, 0])
    return best


def test_finds_what_trying_every_pixel_finds() -> None:
    model, data = linear_images()
    possible = best_lead(model, data)
    found = OnePixel(population=80, generations=40)(model, data, seed=0)
    assert 5 < int((possible > 0).sum()) < 55  # some can be fooled and some cannot, so both are tested
    assert not found.success[possible < 0].any()
    assert found.success[possible > 0.02].all()
    assert set(found.distance.tolist()) == {0, 1}
    assert torch.equal(model.predict(found.adversarial) != data.y, found.success)
    assert found.queries < 0.8 * 60 * 80 * 41  # what is solved, or whose candidates are all alike, is dropped


def test_more_pixels_find_more_and_a_target_is_harder() -> None:
    model, data = linear_images()
    one, three = (OnePixel(pixels=count, population=40, generations=20)(model, data, seed=0) for count in (1, 3))
    assert three.success.sum() > one.success.sum()
    assert three.distance.max() <= 3
    targeted = OnePixel(target="1", population=40, generations=20)(model, data, seed=0)
    won = targeted.success & (data.y != 1)
    assert 0 < won.sum() <= one.success.sum()
    assert (model.predict(targeted.adversarial[won]) == 1).all()


def test_a_mask_is_kept_and_the_seed_decides() -> None:
    model, data = linear_images()
    mask = torch.zeros(1, 1, 4, 4, dtype=torch.bool)
    mask[..., :2] = True
    found, again = (OnePixel(pixels=3, population=30, generations=10, mask=mask)(model, data, seed=3) for _ in "ab")
    assert found.success.any()
    assert torch.equal(found.adversarial[..., 2:], data.x[..., 2:])
    assert torch.equal(found.adversarial, again.adversarial)
    assert found.queries == again.queries


def test_of_a_table_a_pixel_is_a_feature_within_the_range_of_the_data() -> None:
    torch.manual_seed(0)
    model = Model(nn.Linear(5, 2), input_shape=(5,), classes=2, bounds=None)
    x = torch.randn(80, 5) * torch.tensor([1.0, 10.0, 0.1, 1.0, 1.0])
    data = Data(x, model.predict(x), model.classes)
    found = OnePixel(population=40, generations=30)(model, data, seed=0)
    weight, low, high = model.module.weight.detach(), x.amin(dim=0), x.amax(dim=0)  # type: ignore[operator]
    difference = weight[1] - weight[0]
    lead = model.logits(x).diff(dim=1)[:, 0]
    sign = torch.where(data.y == 1, 1.0, -1.0)
    ends = torch.stack([lead[:, None] + difference * (end - x) for end in (low, high)])
    possible = (sign[:, None] * ends < 0).any(dim=0).any(dim=1)
    assert torch.equal(found.success, possible)
    assert (found.adversarial >= low).all()
    assert (found.adversarial <= high).all()


def test_asks_no_more_than_it_says_and_needs_no_gradient() -> None:
    class Unwilling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.asked = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert not x.requires_grad
            assert not torch.is_grad_enabled()
            self.asked += len(x)
            return torch.stack([x.mean(dim=1), torch.full((len(x),), 0.9)], dim=1)

    module = Unwilling()
    model = Model(module, input_shape=(4,), classes=2)
    module.asked = 0  # without the probe that a model is tried on when it is made
    data = Data(
        torch.rand(7, 4), torch.ones(7, dtype=torch.int64), model.classes
    )  # one value cannot move the mean so far
    found = OnePixel(population=10, generations=5)(model, data, seed=0)
    assert not found.success.any()
    assert torch.equal(found.adversarial, data.x)
    assert found.queries == 7 * 10 * 6  # the first candidates, and five generations of children
    assert module.asked - found.queries <= 4 * len(data)  # the rest: the clean pass, the look for randomness, the check


def test_nonsense_is_refused() -> None:
    model, data = linear_images()
    for settings in ({"pixels": 0}, {"population": 3}, {"generations": 0}):
        with pytest.raises(InputError, match="parameter of"):
            OnePixel(**settings)(model, data, seed=0)  # type: ignore[arg-type]
    table = Model(nn.Linear(5, 2), input_shape=(5,), classes=2, bounds=None)
    alone = Data(torch.rand(1, 5), torch.zeros(1, dtype=torch.int64), table.classes)
    with pytest.raises(InputError, match="no range to draw from"):
        OnePixel()(table, alone, seed=0)
