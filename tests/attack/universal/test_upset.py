"""UPSET finds the best universal perturbation where a closed form knows it, and trains nothing but its generator."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.attack import UPSET, Upset
from modelkeep.core.errors import InputError
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import architectures, datasets

RECIPE = Recipe(epochs=15, batch_size=32, learning_rate=1e-2)


def linear() -> tuple[Model, Data]:
    torch.manual_seed(0)
    model = Model(nn.Linear(10, 2), input_shape=(10,), classes=("no", "yes"), bounds=None)
    x = torch.randn(400, 10)
    return model, Data(x, model.predict(x), model.classes)


def test_on_a_linear_model_it_comes_close_to_the_closed_form() -> None:
    model, data = linear()
    found = UPSET(radius=0.4, recipe=RECIPE, held_out=0.5)(model, data, seed=0)
    weight = model.module.weight.detach().diff(dim=0)[0]  # type: ignore[operator]
    lead = model.logits(data.x).diff(dim=1)[:, 0]
    for target, sign in ((0, -1), (1, 1)):
        # The best change of all is ±radius wherever a weight helps: it adds radius · ‖w‖₁ to the lead.
        best = 0.4 * sign * weight.sign()
        reached = float(weight @ found.perturbation[target]) / float(weight @ best)
        assert 0.95 < reached <= 1 + 1e-6
        others = sign * lead < 0
        possible = float((sign * lead + 0.4 * weight.abs().sum() > 0)[others].double().mean())
        rate = found.success_rate[model.classes[target]]
        assert rate is not None
        assert not rate.excludes(possible)
    assert found.perturbation.abs().max() <= 0.4 * (1 + 1e-6)


def test_moves_held_out_digits_to_the_class_that_is_wanted() -> None:
    data = datasets.load("digits").first(700)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(architectures.dense((1, 8, 8), 10, hidden=[32]), nn.Dropout(0.2))
    model = Model(module, input_shape=(1, 8, 8), classes=data.classes)
    fit(model, data, cross_entropy, Recipe(epochs=10, batch_size=64, learning_rate=5e-3), seed=0)
    before, modes = model.fingerprint(), [part.training for part in module.modules()]
    found, again = (UPSET(radius=0.3, targets=("3", "8"), recipe=RECIPE)(model, data, seed=0) for _ in "ab")
    assert model.fingerprint() == before
    assert [part.training for part in module.modules()] == modes
    assert all(parameter.requires_grad and parameter.grad is None for parameter in module.parameters())
    assert torch.equal(found.perturbation, again.perturbation)
    for name, change in zip(found.targets, found.perturbation, strict=True):
        rate = found.success_rate[name]
        noise = 0.3 * torch.randn(change.shape, generator=torch.Generator().manual_seed(0)).sign()
        others = data.x[model.predict(data.x) != int(name)]
        random = model.predict((others + noise).clamp(0, 1)) == int(name)
        assert rate is not None
        assert rate.low > float(random.double().mean()) + 0.2  # one random change of the same size does far less
        assert rate.n < 0.3 * len(data) + 1
    assert len(found.draw().axes) == 2
    back = Result.from_json(found.to_json())
    assert isinstance(back, Upset)
    assert torch.equal(back.perturbation, found.perturbation)
    assert "towards '8'" in str(found)


def test_a_victim_without_gradients_is_called_so() -> None:
    class Steps(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            score = (x.sum(dim=1) > 0).float() + 0 * x.sum(dim=1)
            return torch.stack([2 * score, -score], dim=1)

    model = Model(Steps(), input_shape=(6,), classes=2, bounds=None)
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    data = Data(x, model.predict(x), model.classes)
    found = UPSET(radius=0.5, recipe=Recipe(epochs=1))(model, data, seed=0)
    assert "masked gradients suspected: the gradient is exactly zero" in found.health[0]
    assert len(found.draw().axes) == 1


def test_nonsense_is_refused() -> None:
    model, data = linear()
    with pytest.raises(InputError, match="The 'held_out' parameter of UPSET"):
        UPSET(radius=0.1, held_out=1.0)(model, data, seed=0)
    with pytest.raises(InputError, match="no class 'maybe'"):
        UPSET(radius=0.1, targets=("maybe",))(model, data, seed=0)
    with pytest.raises(InputError, match="'radius'"):
        UPSET(radius=0.0)(model, data, seed=0)
    with pytest.raises(InputError, match="2 examples and 1 target at least"):
        UPSET(radius=0.1)(model, data.first(1), seed=0)
