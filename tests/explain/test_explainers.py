"""The methods known by name equal the general form, and another library's answer."""

from __future__ import annotations

import pytest
import torch
from captum import attr as captum
from torch import nn

from explain.networks import noise, seeded, smooth_network, tabular
from modelkeep import Model
from modelkeep.core.errors import InputError
from modelkeep.explain import (
    ChannelInfluence,
    ClassScore,
    Conductance,
    Gaussian,
    GradCAM,
    Influence,
    IntegratedGradients,
    Line,
    Path,
    Saliency,
    SmoothGrad,
)

TWO = ClassScore("two")


@pytest.fixture
def images() -> torch.Tensor:
    return torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(3))


def leaf(x: torch.Tensor) -> torch.Tensor:
    return x.clone().requires_grad_()


def test_saliency(small_cnn: Model, images: torch.Tensor) -> None:
    ours = Saliency(quantity=TWO)(small_cnn, images, seed=0)
    assert torch.equal(ours.influence, Influence(quantity=TWO)(small_cnn, images, seed=0).influence)
    theirs = captum.Saliency(small_cnn.forward).attribute(leaf(images), target=2, abs=False)
    torch.testing.assert_close(ours.influence, theirs)


def test_smooth_grad(small_cnn: Model, images: torch.Tensor) -> None:
    """Captum draws other noise, so it is handed ours, draw by draw."""
    ours = SmoothGrad(sigma=0.3, steps=6, quantity=TWO)(small_cnn, images, seed=4)
    general = Influence(quantity=TWO, distribution=Gaussian(0.3, 6))(small_cnn, images, seed=4)
    assert torch.equal(ours.influence, general.influence)
    peer = captum.Saliency(small_cnn.forward)
    draws = [peer.attribute(leaf(x), target=2, abs=False) for x in Gaussian(0.3, 6).samples(images, seed=4)]
    torch.testing.assert_close(ours.influence, torch.stack(draws).mean(dim=0))


def test_integrated_gradients(small_cnn: Model, images: torch.Tensor) -> None:
    ours = IntegratedGradients(baseline=0.25, steps=20, quantity=TWO)(small_cnn, images, seed=0).attribution
    general = Influence(quantity=TWO, distribution=Line(0.25, 20))(small_cnn, images, seed=0).attribution
    assert ours is not None
    assert general is not None
    assert torch.equal(ours, general)
    peer = captum.IntegratedGradients(small_cnn.forward)
    theirs = peer.attribute(images, 0.25, target=2, n_steps=20, method="riemann_middle")
    torch.testing.assert_close(ours, theirs.float(), atol=1e-6, rtol=1e-4)


def test_grad_cam(small_cnn: Model, images: torch.Tensor) -> None:
    ours = GradCAM(slice="2", quantity=TWO)(small_cnn, images, seed=0)
    general = Influence(slice="2", quantity=TWO)(small_cnn, images, seed=0)
    by_hand = (general.influence.mean(dim=(2, 3), keepdim=True) * general.activation).sum(dim=1)
    torch.testing.assert_close(ours.heat(), by_hand)
    assert isinstance(small_cnn.module, nn.Sequential)
    theirs = captum.LayerGradCam(small_cnn.forward, small_cnn.module[2]).attribute(images, target=2)
    torch.testing.assert_close(ours.heat(), theirs[:, 0].detach())


def test_channel_influence(small_cnn: Model, images: torch.Tensor) -> None:
    """Raising a whole channel by a little moves the quantity by its influence; and Captum's, where the map is ones."""
    ours = ChannelInfluence(slice="2", quantity=TWO)(small_cnn, images, seed=0)
    general = Influence(slice="2", quantity=TWO)(small_cnn, images, seed=0)
    torch.testing.assert_close(ours.influence, general.influence.sum(dim=(2, 3)))
    double = Model.from_card(small_cnn.module.double(), small_cnn.card)
    s = double.slice("2")
    cut = s.h(images.double())
    for channel in range(3):
        step = torch.zeros_like(cut.value)
        step[:, channel] = 1e-6
        up, down = (s.g(cut.replace(cut.value + sign * step))[:, 2] for sign in (1, -1))
        torch.testing.assert_close(
            ours.influence[:, channel].double(), ((up - down) / 2e-6).detach(), atol=1e-4, rtol=1e-3
        )
    assert isinstance(double.module, nn.Sequential)
    peer = captum.LayerGradientXActivation(double.forward, double.module[2], multiply_by_inputs=False)
    theirs = peer.attribute(images.double(), target=2).sum(dim=(2, 3)).detach()
    torch.testing.assert_close(ours.influence.double(), theirs, atol=1e-5, rtol=1e-4)


def test_conductance(small_cnn: Model, images: torch.Tensor) -> None:
    """Equal to Captum's where both are exact (the rest of the network is linear), near where both approximate."""
    ours = Conductance(slice="2", baseline=0.25, steps=30, quantity=TWO)(small_cnn, images, seed=0)
    general = Influence(slice="2", quantity=TWO, distribution=Path(0.25, 30))(small_cnn, images, seed=0)
    assert ours.attribution is not None
    assert general.attribution is not None
    assert torch.equal(ours.attribution, general.attribution)

    lower = smooth_network(3, (6,))
    x = noise(4, 4, dtype=torch.float64)
    assert isinstance(lower.module, nn.Sequential)
    exact = Conductance(slice="1", baseline=0.0, steps=5, quantity=ClassScore("dog"))(lower, x, seed=0).attribution
    theirs = captum.LayerConductance(lower.forward, lower.module[1]).attribute(
        x, 0.0, target=1, n_steps=50, method="riemann_trapezoid"
    )
    assert exact is not None
    torch.testing.assert_close(exact, theirs, atol=1e-5, rtol=1e-5)

    deep = smooth_network(5, (6, 5))
    assert isinstance(deep.module, nn.Sequential)
    near = Conductance(slice="1", baseline=0.0, steps=50, quantity=ClassScore("dog"))(deep, x, seed=0)
    theirs = captum.LayerConductance(deep.forward, deep.module[1]).attribute(
        x, 0.0, target=1, n_steps=2000, method="riemann_trapezoid"
    )
    assert near.attribution is not None
    torch.testing.assert_close(near.attribution, theirs, atol=1e-3, rtol=1e-2)
    assert near.gap is not None
    assert float(near.gap.abs().max()) < 1e-3


def test_channels_are_asked_of_feature_maps_only() -> None:
    model = tabular(seeded(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), 0))
    for method in (GradCAM(slice="1"), ChannelInfluence(slice="1")):
        with pytest.raises(InputError, match=r"'1' has units, not channels with positions: its value has shape \(5,\)"):
            method(model, noise(2, 4))
