"""PGD finds what there is to find, nothing else, and says when it may have missed something."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from modelkeep import Data, Model, Preprocessing, Result
from modelkeep.attack import PGD, Case
from modelkeep.core.access import Weights
from modelkeep.core.errors import InputError, ModelKeepError
from modelkeep.core.norms import Ball, Norm

CLASSES = ("a", "b", "c")


def linear_model(seed: int = 0, classes: int = 2, bounds: tuple[float, float] | None = None) -> Model:
    layer = nn.Linear(6, classes)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)))
    return Model(layer, input_shape=(6,), classes=CLASSES[:classes], bounds=bounds)


@pytest.fixture
def contested_cnn(small_cnn: Model) -> Model:
    """The untrained network, with its last bias set so that no class wins everywhere."""
    x = torch.rand(200, 1, 8, 8, generator=torch.Generator().manual_seed(9))
    with torch.no_grad():
        small_cnn.module.get_parameter("6.bias").sub_(small_cnn.logits(x).mean(dim=0))
    return small_cnn


def data_for(model: Model, n: int = 200, seed: int = 1) -> Data:
    """Random inputs, labelled as the model sees them."""
    x = torch.rand(n, *model.input_shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    if model.bounds is not None:
        x = x.clamp(*model.bounds)
    return Data(x, model.predict(x), model.classes)


@pytest.mark.parametrize(("norm", "dual"), [("linf", 1), ("l2", 2)])
def test_on_a_linear_model_it_succeeds_exactly_where_the_closed_form_says(norm: Norm, dual: int) -> None:
    """The distance to the boundary of w·x + b is |w·x + b| over the dual norm of w."""
    model = linear_model()
    data = data_for(model)
    assert isinstance(model.module, nn.Linear)
    w = (model.module.weight[0] - model.module.weight[1]).detach()
    logits = model.logits(data.x)
    distance = (logits[:, 0] - logits[:, 1]).abs() / w.norm(p=dual)
    radius = float(distance.median())
    found = PGD(norm=norm, radius=radius, steps=100, step_size=radius / 4)(model, data, seed=0)
    clear = (distance - radius).abs() > 0.02 * radius
    assert torch.equal(found.success[clear], (distance < radius)[clear])
    assert 0.3 < found.robust_accuracy.value < 0.7


@pytest.mark.parametrize(("norm", "dual", "radius"), [("linf", 1, 3e-4), ("l2", 2, 3e-3)])
def test_a_small_radius_in_many_dimensions_is_no_safer_than_the_closed_form_says(
    norm: Norm, dual: int, radius: float
) -> None:
    """Where rounding is a large part of the ball, a success must not be lost to it."""
    layer = nn.Linear(784, 2)
    model = Model(nn.Sequential(nn.Flatten(), layer), input_shape=(1, 28, 28), classes=2)
    x = 0.2 + 0.6 * torch.rand(400, 1, 28, 28, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        weight = torch.randn(2, 784, generator=torch.Generator().manual_seed(5))
        layer.weight.copy_(weight)
        layer.bias.zero_()
        w = weight[0] - weight[1]
        # Every input is put at up to twice the radius from the boundary.
        signed = x.flatten(1) @ w
        wanted = torch.linspace(-2, 2, len(x)) * radius * w.norm(p=dual)
        x += ((wanted - signed)[:, None] * w / w.dot(w)).view_as(x)
        distance = (x.double().flatten(1) @ w.double()).abs()
        distance /= w.double().norm(p=dual)
    found = PGD(norm=norm, radius=radius)(model, Data(x, model.predict(x), model.classes), seed=0)
    clear = (distance - radius).abs() > 0.1 * radius
    assert torch.equal(found.success[clear], (distance < radius)[clear])
    assert 100 < int(clear.sum())


@pytest.mark.parametrize("target", [None, "b"])
def test_a_model_that_is_very_sure_is_attacked_all_the_same(target: str | None) -> None:
    """Logits times a million: the same decisions, but the cross-entropy's gradient is zero in float32."""
    plain = linear_model(classes=3)
    sure = linear_model(classes=3)
    with torch.no_grad():
        for parameter in sure.module.parameters():
            parameter.mul_(1e6)
    data = data_for(plain)
    expected = PGD(norm="l2", radius=0.3, target=target)(plain, data, seed=0)
    found = PGD(norm="l2", radius=0.3, target=target)(sure, data, seed=0)
    assert found.health == ()
    # Not quite the same: a sure model looks at its second choice only, where an unsure one looks at all.
    assert float((found.success == expected.success).double().mean()) > 0.95
    assert 0.1 < float(found.success.double().mean()) < 0.9


@given(seed=st.integers(0, 10**6), targeted=st.booleans())
def test_the_ascent_follows_the_cross_entropy(seed: int, targeted: bool) -> None:
    """The gradient that is followed is the cross-entropy's times a positive number per example."""
    model = linear_model(seed, classes=3)
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    goal = torch.arange(5) % 3
    case = Case(Weights(model), x.detach(), goal, targeted, Ball("l2", 1.0), None, torch.Generator(), torch.arange(5))
    ours, _ = case.gradient(x, case.gain)
    loss = nn.functional.cross_entropy(model.forward(x).double(), goal, reduction="sum")
    (theirs,) = torch.autograd.grad(-loss if targeted else loss, x)
    torch.testing.assert_close(ours / ours.norm(dim=1, keepdim=True), theirs / theirs.norm(dim=1, keepdim=True))


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_successes_are_real_and_failures_are_the_originals(contested_cnn: Model, norm: Norm) -> None:
    x = torch.rand(60, 1, 8, 8, generator=torch.Generator().manual_seed(2))
    data = Data(x, contested_cnn.predict(x), contested_cnn.classes)
    radius = 0.02 if norm == "linf" else 0.1
    found = PGD(norm=norm, radius=radius, steps=20)(contested_cnn, data, seed=0)
    again = contested_cnn.predict(found.adversarial)
    assert torch.equal(again, found.after)
    assert torch.equal(found.success, again != data.y)
    assert torch.equal(found.adversarial[~found.success], data.x[~found.success])
    assert 0 < int(found.success.sum()) < 60
    assert float(found.distance.max()) <= radius
    assert 0 <= float(found.adversarial.min())
    assert float(found.adversarial.max()) <= 1
    assert found.success_rate is not None
    assert found.success_rate.value == pytest.approx(1 - found.robust_accuracy.value)


def test_a_success_is_not_lost_because_another_batch_rounds_otherwise() -> None:
    class Rounding(nn.Module):
        """Two classes around x = 0, with a rounding that depends on the size of the batch."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([1 + x + 2e-8 * len(x), torch.ones_like(x)], dim=1)

    model = Model(Rounding(), input_shape=(1,), classes=2, bounds=None)
    x = torch.linspace(0.05, 0.45, 3000)[:, None]
    found = PGD(radius=0.5, batch_size=3000)(
        model, Data(x, torch.zeros(3000, dtype=torch.int64), model.classes), seed=0
    )
    assert found.success.all()


def test_what_is_already_wrong_is_left_alone() -> None:
    model = linear_model()
    data = data_for(model)
    wrong = Data(data.x, 1 - data.y, data.classes)
    found = PGD(radius=0.1)(model, wrong, seed=0)
    assert found.clean_accuracy.value == 0
    assert found.success_rate is None
    assert torch.equal(found.adversarial, data.x)
    assert "nothing to attack" in str(found)


def test_a_target_is_reached_and_nothing_else_counts() -> None:
    model = linear_model(classes=3)
    data = data_for(model)
    found = PGD(norm="l2", radius=5.0, steps=50, target="b")(model, data, seed=0)
    assert bool((model.predict(found.adversarial) == 1).all())
    near = PGD(norm="l2", radius=0.2, steps=50, target="b")(model, data, seed=0)
    assert torch.equal(near.success, near.after == 1)
    assert not near.success.all()
    with pytest.raises(InputError, match=r"The model has no class 'z'. Its classes: a, b, c"):
        PGD(radius=1.0, target="z")(model, data, seed=0)


def test_the_radius_is_in_the_owners_units() -> None:
    """A model behind a normalisation with std 1/2 is twice as sensitive as the one without."""
    plain = linear_model()
    half = Model(plain.module, input_shape=(6,), classes=2, bounds=None, preprocessing=Preprocessing((0.0,), (0.5,)))
    data = data_for(plain)
    with torch.no_grad():
        plain.module.bias.zero_()  # type: ignore[operator]
    data = Data(data.x, plain.predict(data.x), plain.classes)
    wide = PGD(norm="l2", radius=0.4, steps=60)(plain, data, seed=0)
    also = PGD(norm="l2", radius=0.4, steps=60)(half, data, seed=0)
    # f(2x) = 2 f(x) without a bias, so the boundary is where it was: normalisation must not change the answer.
    assert wide.robust_accuracy.value == pytest.approx(also.robust_accuracy.value, abs=0.02)


def test_solved_examples_cost_nothing_more() -> None:
    model = linear_model()
    data = data_for(model)
    sizes: list[int] = []
    handle = model.module.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    PGD(norm="linf", radius=5.0, steps=40)(model, data, seed=0)
    handle.remove()
    # Everything is solved within a few steps: far fewer passes than 40 steps on all examples.
    assert sum(sizes) < 12 * len(data)


def test_restarts_only_help(contested_cnn: Model) -> None:
    x = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(3))
    data = Data(x, contested_cnn.predict(x), contested_cnn.classes)
    once = PGD(radius=0.02, steps=3)(contested_cnn, data, seed=0)
    often = PGD(radius=0.02, steps=3, restarts=5)(contested_cnn, data, seed=0)
    assert bool((often.success | ~once.success).all())


def test_the_batch_size_does_not_change_who_is_attacked_how() -> None:
    model = linear_model()
    data = data_for(model, n=50)
    whole = PGD(radius=0.3, steps=10, batch_size=50)(model, data, seed=0)
    parts = PGD(radius=0.3, steps=10, batch_size=7)(model, data, seed=0)
    torch.testing.assert_close(whole.adversarial, parts.adversarial)


def test_flat_and_random_models_are_suspected() -> None:
    class Step(nn.Module):
        """No gradient anywhere, as after rounding."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            score = (x.sum(dim=1) > 0).float() + 0 * x.sum(dim=1)
            return torch.stack([2 * score, 1 - score], dim=1)

    class Noisy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([x.sum(dim=1), torch.rand(len(x))], dim=1)

    flat = Model(Step(), input_shape=(6,), classes=2, bounds=None)
    found = PGD(radius=0.5)(flat, data_for(flat), seed=0)
    assert "masked gradients suspected: the gradient is exactly zero on 200 of 200" in found.health[0]
    noisy = Model(Noisy(), input_shape=(6,), classes=2, bounds=None)
    assert "the model is random" in PGD(radius=0.5)(noisy, data_for(noisy), seed=0).health[0]
    assert PGD(radius=0.5)(linear_model(), data_for(linear_model()), seed=0).health == ()


def test_too_few_steps_are_noticed() -> None:
    model = linear_model()
    found = PGD(radius=0.5, steps=10, step_size=0.05)(model, data_for(model), seed=0)
    assert any("too few steps" in note for note in found.health)


def test_the_result_prints_draws_and_comes_back_from_json(contested_cnn: Model) -> None:
    x = torch.rand(12, 1, 8, 8)
    found = PGD(radius=0.2)(contested_cnn, Data(x, contested_cnn.predict(x), contested_cnn.classes), seed=0)
    assert "accuracy, attacked" in str(found)
    assert len(found.draw().axes) >= 3
    back = Result.from_json(found.to_json())
    assert type(back) is type(found)
    assert torch.equal(back.adversarial, found.adversarial)


def test_nonsense_is_refused(small_cnn: Model) -> None:
    data = Data(torch.rand(2, 1, 8, 8), torch.zeros(2, dtype=torch.int64), small_cnn.classes)
    for settings in (
        {"radius": -1.0},
        {"radius": 1.0, "steps": 0},
        {"radius": 1.0, "restarts": 0},
        {"radius": float("nan")},
    ):
        with pytest.raises(InputError, match="parameter of"):
            PGD(**settings)(small_cnn, data, seed=0)  # type: ignore[arg-type]
    other = Data(torch.rand(2, 3), torch.zeros(2, dtype=torch.int64), small_cnn.classes)
    with pytest.raises(ModelKeepError, match="takes inputs of shape"):
        PGD(radius=1.0)(small_cnn, other, seed=0)
    swapped = Data(data.x, data.y, small_cnn.classes[::-1])
    with pytest.raises(InputError, match="in the same order"):
        PGD(radius=1.0)(small_cnn, swapped, seed=0)
    outside = Data(data.x * 255, data.y, small_cnn.classes)
    with pytest.raises(InputError, match=r"takes values in \(0.0, 1.0\)"):
        PGD(radius=1.0)(small_cnn, outside, seed=0)


def test_works_where_gradients_are_switched_off() -> None:
    model = linear_model()
    data = data_for(model)
    with torch.no_grad():
        off = PGD(radius=0.5)(model, data, seed=0)
    assert torch.equal(off.adversarial, PGD(radius=0.5)(model, data, seed=0).adversarial)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_steps_that_become_smaller_find_no_less_for_fewer_passes(contested_cnn: Model, norm: Norm) -> None:
    x = torch.rand(200, 1, 8, 8, generator=torch.Generator().manual_seed(5))
    data = Data(x, contested_cnn.predict(x), contested_cnn.classes)
    radius = 0.02 if norm == "linf" else 0.1
    falling = PGD(norm=norm, radius=radius, steps=30)(contested_cnn, data, seed=0)
    constant = PGD(norm=norm, radius=radius, steps=30, step_size=2.5 * radius / 30)(contested_cnn, data, seed=0)
    assert falling.robust_accuracy.value <= constant.robust_accuracy.value
    assert falling.gradients < constant.gradients
