"""Input-gradient regularisation: the analytic penalty of a linear model, and its gradient by differences."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.errors import InputError
from modelkeep.harden import GradientRegularisation
from modelkeep.training import Linear, Recipe, Step, cross_entropy, fit

Make = Callable[[], Model]
STEP = Step(0, 10, 10)


def terms(objective: GradientRegularisation, model: Model, x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    found = objective(model, x, y, STEP)
    assert isinstance(found, tuple)
    return found[0].item(), found[1]["gradient penalty"].item()


def test_of_a_linear_model_the_gradient_is_the_weights_times_what_is_wrong(linear: Model) -> None:
    x, y = torch.randn(9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)), torch.arange(9) % 2
    weight, bias = linear.module.parameters()
    wrong = (x @ weight.T + bias).softmax(dim=1) - torch.eye(2)[y]
    expected = (wrong @ weight).square().sum(dim=1).mean().item()  # ∇ₓ CE = Wᵀ (p - y)
    loss, penalty = terms(GradientRegularisation(strength=0.7), linear, x, y)
    assert penalty == pytest.approx(expected, rel=1e-12)
    assert loss == pytest.approx(cross_entropy(linear, x, y, STEP).item() + 0.7 * expected, rel=1e-12)


def test_the_penalty_is_differentiated_too() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    model = Model(module, input_shape=(6,), classes=3, bounds=None)
    x, y = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)), torch.arange(4) % 3
    objective, weight = GradientRegularisation(strength=2.0), module[0].weight
    found = objective(model, x, y, STEP)
    assert isinstance(found, tuple)
    found[0].backward()  # type: ignore[no-untyped-call]
    assert isinstance(weight, torch.Tensor)
    assert weight.grad is not None
    for place in ((0, 0), (2, 3), (4, 5)):
        ends = []
        for shift in (1e-5, -2e-5):  # up, and from there down
            with torch.no_grad():
                weight[place] += shift
            ends.append(terms(objective, model, x, y)[0])
        with torch.no_grad():
            weight[place] += 1e-5
        assert weight.grad[place].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


def test_a_stronger_penalty_gives_smaller_gradients_and_none_is_plain_training(
    fresh: Make, digits: tuple[Data, Data]
) -> None:
    data, recipe = digits[0].first(200), Recipe(epochs=6, batch_size=50, learning_rate=1e-2)
    size = {}
    for strength in (0.0, 3.0):
        model = fresh()
        fit(model, data, GradientRegularisation(strength=strength), recipe, seed=0)
        size[strength] = terms(GradientRegularisation(strength=1.0), model, data.x, data.y)[1]
        if strength == 0.0:
            fit(plain := fresh(), data, cross_entropy, recipe, seed=0)
            for one, other in zip(model.module.parameters(), plain.module.parameters(), strict=True):
                torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3)
    assert size[3.0] < 0.5 * size[0.0]


def test_the_strength_may_be_scheduled_and_must_not_be_negative(linear: Model) -> None:
    x, y = torch.ones(1, 6, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)
    loss, _ = terms(GradientRegularisation(strength=Linear(0.0, 1.0)), linear, x, y)
    assert loss == pytest.approx(cross_entropy(linear, x, y, STEP).item(), rel=1e-12)
    with pytest.raises(InputError, match="'strength' parameter of GradientRegularisation"):
        GradientRegularisation(strength=-1.0)
