"""Quantities of interest: what is explained is what was asked for, and what does not exist is refused by name."""

from __future__ import annotations

import pytest
import torch
from captum.attr import NeuronGradient
from torch import nn

from core.slices.networks import Branching, Twice, Untraced
from explain.networks import noise, seeded, smooth_network, tabular
from modelkeep import Model
from modelkeep.core.errors import InputError, SliceError
from modelkeep.explain import AgainstAll, Channel, ClassScore, Contrast, Influence, Line, OfInner, Unit


@pytest.fixture
def images() -> torch.Tensor:
    return torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def test_one_class_against_all_others_is_the_mean_of_the_contrasts() -> None:
    model, x = smooth_network(1), noise(3, 4, dtype=torch.float64)
    pairs = [Influence(quantity=Contrast("dog", other))(model, x, seed=0).influence for other in ("cat", "eel")]
    found = Influence(quantity=AgainstAll("dog"))(model, x, seed=0).influence
    torch.testing.assert_close(found, (pairs[0] + pairs[1]) / 2)


def test_a_unit_and_a_channel_equal_captums(small_cnn: Model, images: torch.Tensor) -> None:
    assert isinstance(small_cnn.module, nn.Sequential)
    theirs = NeuronGradient(small_cnn.forward, small_cnn.module[2])
    unit = Influence(quantity=Unit("2", (1, 2, 0)))(small_cnn, images, seed=0)
    wanted = theirs.attribute(images.clone().requires_grad_(), (1, 2, 0))
    torch.testing.assert_close(unit.influence, wanted)
    height, width = unit_shape(small_cnn, "2")[1:]
    every = [
        theirs.attribute(images.clone().requires_grad_(), (1, row, column))
        for row in range(height)
        for column in range(width)
    ]
    channel = Influence(quantity=Channel("2", 1))(small_cnn, images, seed=0)
    torch.testing.assert_close(channel.influence, torch.stack(every).mean(dim=0))
    value = small_cnn.slice("2").h(images).value
    torch.testing.assert_close(channel.values, value[:, 1].mean(dim=(1, 2)).detach())
    torch.testing.assert_close(unit.values, value[:, 1, 2, 0].detach())
    assert torch.equal(unit.predicted, small_cnn.predict(images))


def unit_shape(model: Model, place: str) -> torch.Size:
    return model.slice(place).h(model.probe()).value.shape[1:]


@pytest.mark.parametrize("network", [Branching, Untraced])
def test_from_one_inner_place_to_another(network: type[nn.Module]) -> None:
    """Traced or hooked: the slope of a unit of the last layer with respect to an earlier one."""
    model = Model(seeded(network(), 3), input_shape=(6,), classes=3, bounds=None)
    start, end = ("left.0", "last") if network is Branching else ("inside.first", "inside.relu")
    x = noise(4, 6)
    found = Influence(slice=start, quantity=OfInner("length", end, lambda z: z.square().sum(dim=1)))(model, x, seed=0)
    s = model.slice(start, until=end, skip="hold")
    cut = s.h(x)
    for unit in range(cut.value.shape[1]):
        step = 1e-3 * torch.eye(cut.value.shape[1])[unit]
        up, down = (s.g(cut.replace(cut.value + sign * step)).square().sum(dim=1) for sign in (1, -1))
        torch.testing.assert_close(found.influence[:, unit], ((up - down) / 2e-3).detach(), atol=2e-2, rtol=2e-2)


def test_an_inner_quantity_has_attribution_too() -> None:
    model, x = smooth_network(2, (5, 3)), noise(3, 4, dtype=torch.float64)
    found = Influence(slice="0", quantity=Unit("2", 1), distribution=Line(0.0, 100, at="slice"))(model, x, seed=0)
    assert found.gap is not None
    assert float(found.gap.abs().max()) < 1e-4
    assert found.quantity == "unit 1 of '2'"


def test_nothing_above_the_unit_is_run(small_cnn: Model, images: torch.Tensor) -> None:
    """Only the prediction runs the whole network, once."""
    runs = 0

    def count(_: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        nonlocal runs
        runs += len(inputs[0]) == len(images)  # the slice tries itself out on two inputs

    assert isinstance(small_cnn.module, nn.Sequential)
    handle = small_cnn.module[-1].register_forward_pre_hook(count)
    Influence(quantity=Channel("2", 0), distribution=Line(0.0, count=9))(small_cnn, images, seed=0)
    handle.remove()
    assert runs == 2  # to know the predictions, and to compare the first real batch with the network, once


def test_what_does_not_exist_is_refused_by_name(small_cnn: Model, images: torch.Tensor) -> None:
    with pytest.raises(SliceError, match="Cannot cut at 'conv9'"):
        Influence(quantity=Channel("conv9", 0))(small_cnn, images, seed=0)
    with pytest.raises(InputError, match="The 'index' parameter of Channel must be 0 to"):
        Influence(quantity=Channel("2", 999))(small_cnn, images, seed=0)
    with pytest.raises(InputError, match="The 'index' parameter of Unit must be 0 to"):
        Influence(quantity=Unit("2", (0, 0, -1)))(small_cnn, images, seed=0)
    with pytest.raises(InputError, match=r"needs 3 numbers, .* Got 1\. Channel\(…\) takes all positions"):
        Influence(quantity=Unit("2", 1))(small_cnn, images, seed=0)
    with pytest.raises(SliceError, match="is computed first"):
        Influence(slice="2", quantity=Channel("0", 0))(small_cnn, images, seed=0)
    table = tabular(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)))
    with pytest.raises(InputError, match="'1' has units, not channels"):
        Influence(quantity=Channel("1", 0))(table, noise(2, 4), seed=0)
    with pytest.raises(InputError, match="The 'against' parameter of Contrast must be another class"):
        Influence(quantity=Contrast("cat", "cat"))(table, noise(2, 4), seed=0)
    with pytest.raises(InputError, match=r"no class 'bird'. Its classes: cat, dog, eel"):
        Influence(quantity=AgainstAll("bird"))(table, noise(2, 4), seed=0)


def test_a_layer_called_twice_asks_for_the_call_of_the_quantity() -> None:
    model = Model(Twice(), input_shape=(6,), classes=3, bounds=None)
    with pytest.raises(SliceError, match=r"'shared' is called 2 times in one pass\. Say after which call"):
        Influence(quantity=Unit("shared", 0))(model, noise(2, 6), seed=0)
    first, second = (Influence(quantity=Unit("shared", 0, call))(model, noise(2, 6), seed=0) for call in (0, 1))
    assert not torch.equal(first.influence, second.influence)
    # The first call is linear in the input, so its influence is the coefficient (axiom 4.1).
    assert isinstance(model.module, Twice)
    wanted = (model.module.shared.weight[0] * model.module.scale).detach()
    torch.testing.assert_close(first.influence, wanted.expand(2, -1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_a_model_of_another_floating_type_gets_the_right_answer(
    small_cnn: Model, images: torch.Tensor, dtype: torch.dtype
) -> None:
    wanted = Influence(quantity=ClassScore("two"), distribution=Line(0.0, 5))(small_cnn, images, seed=0)
    other = Model.from_card(small_cnn.module.to(dtype), small_cnn.card)
    found = Influence(quantity=ClassScore("two"), distribution=Line(0.0, 5))(other, images, seed=0)
    near = 1e-5 if dtype == torch.float64 else 0.15  # rounding moves some points across a kink
    for ours, theirs in ((found.influence, wanted.influence), (found.attribution, wanted.attribution)):
        assert ours is not None
        assert theirs is not None
        assert float((ours - theirs).norm()) < near * float(theirs.norm())
    assert type(found).from_json(found.to_json()).influence.dtype == found.influence.dtype
    with pytest.raises(InputError, match="Inputs must be"):
        Influence()(other, images.to(torch.int64), seed=0)
