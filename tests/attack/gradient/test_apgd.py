"""Auto-PGD: right where the answer is known, stronger than PGD, and for any number of classes from two up."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack.case import Case
from modelkeep.attack.frame import carry_out
from modelkeep.attack.gradient.apgd import APGD
from modelkeep.attack.gradient.apgd_targeted import APGDTargeted
from modelkeep.attack.gradient.climb import climb
from modelkeep.attack.gradient.pgd import PGD
from modelkeep.core.access import Weights
from modelkeep.core.errors import InputError
from modelkeep.core.norms import Ball, Norm


def linear_model(classes: int, dimensions: int = 6, scale: float = 1.0) -> Model:
    layer = nn.Linear(dimensions, classes)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    return Model(layer, input_shape=(dimensions,), classes=classes, bounds=None)


def seen_rightly(model: Model, n: int = 100) -> Data:
    x = torch.rand(n, *model.input_shape, generator=torch.Generator().manual_seed(1)) * 2 - 1
    return Data(x, model.predict(x), model.classes)


def boundary(model: Model, data: Data, dual: float) -> torch.Tensor:
    """The closed form: the smallest margin to another class over the dual norm of the difference of its weights."""
    assert isinstance(model.module, nn.Linear)
    weight, logits = model.module.weight.detach(), model.logits(data.x)
    margin = logits.gather(1, data.y[:, None]) - logits
    length = torch.linalg.vector_norm(weight[data.y][:, None] - weight, ord=dual, dim=2)
    found: torch.Tensor = (margin / length).scatter(1, data.y[:, None], torch.inf).amin(dim=1)
    return found


@pytest.mark.parametrize(
    "search",
    [APGD(radius=1.0), APGD(radius=1.0, loss="dlr"), APGDTargeted(radius=1.0)],
    ids=lambda search: search.title,
)
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize(("norm", "dual"), [("linf", 1.0), ("l2", 2.0), ("l1", torch.inf)], ids=["linf", "l2", "l1"])
def test_on_a_linear_model_it_succeeds_exactly_where_the_closed_form_says(
    norm: Norm, dual: float, classes: int, search: APGD | APGDTargeted
) -> None:
    model = linear_model(classes)
    data = seen_rightly(model)
    distance = boundary(model, data, dual)
    radius = float(distance.median())
    found = carry_out(model, data, [search], attack="it", ball=Ball(norm, radius, None), seed=0)
    assert not found.success[distance > 1.001 * radius].any()
    # Towards one class after the other nothing is missed; a loss over all classes may follow the wrong one.
    reachable = found.success[distance < 0.98 * radius].double()
    assert float(reachable.mean()) >= (1 if isinstance(search, APGDTargeted) or classes == 2 else 0.85)
    assert 0.3 < found.robust_accuracy.value < 0.7


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_it_is_at_least_as_strong_as_pgd_with_steps_of_one_size(digits_net: tuple[Model, Data], norm: Norm) -> None:
    model, data = digits_net
    radius = {"linf": 0.08, "l2": 0.45, "l1": 1.5}[norm]
    plain = PGD(norm=norm, radius=radius, steps=30, step_size=2.5 * radius / 30)(model, data, seed=0)
    auto = APGD(norm=norm, radius=radius, steps=30)(model, data, seed=0)
    both = carry_out(
        model,
        data,
        [APGD(radius=radius, steps=30), APGDTargeted(radius=radius, steps=30)],
        attack="both",
        ball=Ball(norm, radius, model.bounds),
        seed=0,
    )
    assert 0.1 < auto.robust_accuracy.value < 0.9
    assert auto.robust_accuracy.value <= plain.robust_accuracy.value
    assert auto.gradients <= 30 * len(data)
    assert both.robust_accuracy.value <= auto.robust_accuracy.value
    assert float(auto.distance.max()) <= radius


@pytest.mark.parametrize("loss", ["ce", "dlr"])
@pytest.mark.parametrize("classes", [2, 3, 4, 10])
def test_a_target_is_reached(classes: int, loss: Literal["ce", "dlr"]) -> None:
    model = linear_model(classes)
    data = seen_rightly(model)
    found = APGD(norm="l2", radius=20.0, loss=loss, target="1")(model, data, seed=0)
    assert found.success.all()
    near = APGD(norm="l2", radius=0.3, loss=loss, target="1")(model, data, seed=0)
    assert torch.equal(near.success, near.after == 1)
    assert not near.success.all()


def test_the_ratio_does_not_care_how_logits_are_scaled() -> None:
    small, large = linear_model(5), linear_model(5, scale=1e6)
    data = seen_rightly(small)
    same = [APGD(norm="l2", radius=0.3, loss="dlr")(model, data, seed=0) for model in (small, large)]
    torch.testing.assert_close(same[0].adversarial, same[1].adversarial, rtol=0, atol=1e-3)
    assert 0.1 < same[0].robust_accuracy.value < 0.9


def test_a_class_that_is_third_can_be_aimed_at() -> None:
    """With the first minus the third logit as its unit, the ratio would be constant there."""
    layer = nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(3))
    model = Model(layer, input_shape=(3,), classes=3, bounds=None)
    data = Data(torch.tensor([[1.0, 0.5, 0.0]]), torch.tensor([0]), model.classes)
    assert APGD(norm="l2", radius=1.0, loss="dlr", target="2")(model, data, seed=0).success.all()


def test_steps_get_shorter_where_they_are_too_long() -> None:
    """A narrow peak in a wide ball: PGD's steps of one size jump over it."""

    class Peak(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            away = (x - 0.3).abs().sum(dim=1)
            return torch.stack([torch.full_like(away, -0.5), -away], dim=1)

    model = Model(Peak(), input_shape=(2,), classes=2, bounds=None)
    data = Data(torch.zeros(20, 2), torch.zeros(20, dtype=torch.int64), model.classes)
    found = APGD(norm="linf", radius=5.0, steps=100)(model, data, seed=0)
    assert found.success.all()
    assert not PGD(norm="linf", radius=5.0, steps=10, step_size=2.5)(model, data, seed=0).success.all()


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_a_climb_stays_in_the_ball_and_the_mask(digits_net: tuple[Model, Data], norm: Norm) -> None:
    """Where it looks for successes: what the frame puts back afterwards would be lost."""
    model, data = digits_net
    data = data.take(torch.nonzero(model.predict(data.x) == data.y).flatten())
    radius = 0.004  # too small to solve any, so that all examples go all the way
    ball = Ball(norm, radius, model.bounds)
    allowed = (torch.arange(8) < 5).expand(data.x.shape)
    visited = []

    class Recording(Weights):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            visited.append(x.detach())
            return super().forward(x)

    generator = torch.Generator().manual_seed(0)
    case = Case(Recording(model), data.x, data.y, False, ball, allowed, generator, torch.arange(len(data)))
    climb(case, data.x, lambda going, _, logits: going.gain(logits), 20)
    assert [len(x) for x in visited] == [len(data)] * 20
    for x in visited:
        assert float(ball.distance(x, data.x).max()) <= radius + 64e-7  # up to the rounding of a sum
        assert torch.equal(x[..., 5:], data.x[..., 5:])
    assert float(ball.distance(visited[-1], data.x).min()) > 0.5 * radius


@pytest.mark.parametrize("make", [APGD, APGDTargeted], ids=["plain", "targeted"])
def test_a_single_step_is_enough_to_run(make: type[APGD | APGDTargeted]) -> None:
    model = linear_model(3)
    data = seen_rightly(model)
    found = carry_out(model, data, [make(radius=0.5, steps=1)], attack="one", ball=Ball("l2", 0.5), seed=0)
    assert 0 < found.robust_accuracy.value < 1


def test_the_batch_size_does_not_change_the_result(digits_net: tuple[Model, Data]) -> None:
    model, data = digits_net
    for search in (APGD(radius=1.0, steps=20), APGDTargeted(radius=1.0, steps=20, targets=2)):
        whole, parts = (
            carry_out(model, data, [search], attack="it", ball=Ball("l2", 0.4, model.bounds), batch_size=size, seed=0)
            for size in (120, 32)
        )
        assert int((whole.success != parts.success).sum()) <= 1  # rounding differs with the batch


def test_nonsense_is_refused(digits_net: tuple[Model, Data]) -> None:
    model, data = digits_net
    with pytest.raises(InputError, match="'loss' parameter of APGD must be one of 'ce', 'dlr'"):
        APGD(radius=0.1, loss="hinge")(model, data, seed=0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'restarts' parameter"):
        APGD(radius=0.1, restarts=0)(model, data, seed=0)
    with pytest.raises(InputError, match="'steps' parameter"):
        APGD(radius=1.0, steps=0)
    with pytest.raises(InputError, match="'targets' parameter"):
        APGDTargeted(radius=1.0, targets=0)
