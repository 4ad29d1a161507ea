"""The curve: what the closed form says, never rising, and cheaper than an attack at every radius."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.attack import PGD, Attack, Attacked, Case, robustness_curve
from modelkeep.core.access import Weights
from modelkeep.core.errors import InputError


def linear_model() -> Model:
    layer = nn.Linear(6, 2)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    return Model(layer, input_shape=(6,), classes=2, bounds=None)


def examples(model: Model) -> tuple[Data, torch.Tensor]:
    """Random inputs, a tenth of them with wrong labels, and their l2 distance to the boundary (0 for those)."""
    x = torch.rand(200, 6, generator=torch.Generator().manual_seed(1)) * 2 - 1
    logits = model.logits(x)
    assert isinstance(model.module, nn.Linear)
    w = (model.module.weight[0] - model.module.weight[1]).detach()
    distance = (logits[:, 0] - logits[:, 1]).abs() / w.norm()
    y = logits.argmax(dim=1)
    y[:20] = 1 - y[:20]
    distance[:20] = 0
    return Data(x, y, model.classes), distance


class Onto(Attack):
    """The smallest change of linear models: onto the boundary and a little beyond."""

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        gradient, logits = case.gradient(case.original, case.lead)
        ahead = -case.lead(logits)[:, None]
        return case.original + 1.001 * ahead * gradient / gradient.square().sum(dim=1, keepdim=True)


@pytest.mark.parametrize("kind", ["in a ball", "smallest change"])
def test_the_accuracies_are_those_of_the_closed_form(kind: str) -> None:
    model = linear_model()
    data, distance = examples(model)
    radii = [float(distance.quantile(share)) for share in (0.9, 0.3, 0.5, 0.7)]
    attack = PGD(norm="l2", radius=1.0, steps=60) if kind == "in a ball" else Onto()
    found = robustness_curve(model, data, attack, radii, seed=0)
    assert found.radii == (0.0, *sorted(radii))
    for radius, accuracy in zip(found.radii, found.accuracy, strict=True):
        assert accuracy.value == pytest.approx(float((distance > radius).double().mean()), abs=0.02)
        assert accuracy.n == 200
    assert found.accuracy[0].value == 0.9
    fallen = torch.isfinite(found.fell_at)
    assert bool((found.fell_at[fallen] >= distance[fallen] - 1e-5).all())


def test_it_never_rises_and_attacks_again_only_what_fell() -> None:
    model = linear_model()
    data, _ = examples(model)
    radii = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]
    sizes = []

    class Counted(PGD):
        def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Attacked:
            sizes.append(len(data))
            return super().__call__(model, data, seed=seed)

    found = robustness_curve(model, data, Counted(norm="l2", radius=1.0, steps=5), radii, seed=0)
    values = [accuracy.value for accuracy in found.accuracy]
    assert values == sorted(values, reverse=True)
    assert values[0] > values[3] > values[-1]
    assert sizes == sorted(sizes, reverse=True)
    # At each radius, those that fell at the next larger one and are not known to fall within this one.
    fell = [200 - round(200 * value) for value in values]
    assert all(size <= at_larger for size, at_larger in zip(sizes[1:], fell[:1:-1], strict=False))
    separately = sum(PGD(norm="l2", radius=r, steps=5)(model, data, seed=0).gradients for r in radii)
    assert found.gradients < 0.8 * separately


def test_one_run_is_enough_for_the_smallest_change() -> None:
    model = linear_model()
    data, _ = examples(model)
    found = robustness_curve(model, data, Onto(), [0.1, 0.2, 0.3], seed=0)
    whole = Onto()(model, data, seed=0)
    assert found.queries == whole.queries
    assert [a.value for a in found.accuracy[1:]] == [whole.accuracy_at(r).value for r in (0.1, 0.2, 0.3)]


def test_it_prints_draws_and_comes_back_from_json() -> None:
    model = linear_model()
    data, _ = examples(model)
    found = robustness_curve(model, data, PGD(radius=1.0, steps=3), [0.1, 0.2], seed=0)
    assert "accuracy at 0.1" in str(found)
    assert found.draw().axes[0].get_xlabel() == "radius, linf"
    back = Result.from_json(found.to_json())
    assert type(back) is type(found)
    assert torch.equal(back.fell_at, found.fell_at)


def test_nonsense_is_refused() -> None:
    model = linear_model()
    data, _ = examples(model)
    for radii in ([], [0.0, 1.0], [-1.0]):
        with pytest.raises(InputError, match="'radii' parameter of robustness_curve"):
            robustness_curve(model, data, PGD(radius=1.0), radii, seed=0)
