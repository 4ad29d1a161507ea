"""A network laid out for speed gives the same answers, and where it cannot be one, the owner's own is used."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from modelkeep import Data, Model
from modelkeep.attack import pgd
from modelkeep.attack.layout import channels_last


class Viewing(nn.Module):
    """A network that works only as long as the channels come first in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(256, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen: torch.Tensor = self.linear(self.conv(x).relu().view(len(x), -1))
        return seen


def network(first: nn.Module | None = None) -> Model:
    torch.manual_seed(0)
    parts = (first or nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.Flatten(), nn.Linear(80, 3))
    return Model(nn.Sequential(*parts), input_shape=(3, 8, 8), classes=3)


def test_the_answers_and_gradients_are_the_same_up_to_rounding_and_the_model_is_as_it_was() -> None:
    model, x = network(), torch.rand(6, 3, 8, 8, requires_grad=True)
    before = model.fingerprint()
    faster = channels_last(model)
    filters = faster.module.get_parameter("0.weight")
    assert filters.is_contiguous(memory_format=torch.channels_last)
    assert faster.module.get_parameter("4.weight") is model.module.get_parameter("4.weight")
    assert model.module.get_parameter("0.weight").is_contiguous()
    slopes = [torch.autograd.grad(each.forward(x)[:, 0].sum(), x)[0] for each in (model, faster)]
    torch.testing.assert_close(faster.logits(x.detach()), model.logits(x.detach()))
    torch.testing.assert_close(*slopes)
    assert model.fingerprint() == before


def test_where_it_does_not_work_or_gains_nothing_it_is_the_model_itself() -> None:
    viewing = Model(Viewing(), input_shape=(3, 8, 8), classes=3)
    assert channels_last(viewing) is viewing
    data = Data(x := torch.rand(8, 3, 8, 8), viewing.predict(x), viewing.classes)
    assert pgd(viewing, data, radius=0.5, steps=5, seed=0).success.any()
    dense = Model(nn.Linear(6, 3), input_shape=(6,), classes=3)
    assert channels_last(dense) is dense


def test_a_filter_that_is_computed_is_left_alone() -> None:
    model, x = network(weight_norm(nn.Conv2d(3, 4, 3))), torch.rand(6, 3, 8, 8)
    torch.testing.assert_close(channels_last(model).logits(x), model.logits(x))
