"""The margin constants hold on networks that mislead other tools, and are exact where the network is linear."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from certify.networks import DUAL, NORMS, Net, dense, jacobians, model_of, steepest
from modelkeep import Model
from modelkeep.certify.constants import lipschitz
from modelkeep.core.card import Preprocessing
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.norms import Norm

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


def laplacian() -> nn.Conv2d:
    """Ones, where some power methods start, are mapped to zero; a chequerboard is stretched by nearly 8."""
    layer = nn.Conv2d(1, 1, 3, bias=False)
    layer.weight.data.copy_(torch.tensor([[[[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]]]))
    return layer


def normalised(width: int, weight: float, variance: float) -> nn.BatchNorm1d:
    layer = nn.BatchNorm1d(width)
    layer.weight.data.fill_(weight)
    layer.running_var = torch.full((width,), variance)
    return layer


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


# Affine networks: the bound must be the norm itself, however the network is written.
LINEAR: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "rows_sum_to_zero": (dense([[1.0, -1.0, 0.0], [0.0, 2.0, -2.0]]), (3,)),
    "laplacian": (nn.Sequential(laplacian(), nn.Flatten()), (1, 6, 6)),
    "residual": (Net(lambda s, x: x + s.f(x), f=dense([[3.0, 1.0], [0.0, 2.0]])), (2,)),
    "cancelling": (Net(lambda s, x: x - s.f(x), f=dense([[0.9, 0.0], [0.0, 0.9]])), (2,)),
    "vanishing": (Net(lambda s, x: s.f(x) - s.f(x), f=dense([[3.0, 1.0], [0.0, 2.0]])), (2,)),
    "negative": (Net(lambda s, x: -5 * s.f(x) + 1, f=dense([[3.0, 1.0], [0.0, 2.0]])), (2,)),
    "batch_norm": (nn.Sequential(dense([[3.0, 1.0], [0.0, 2.0]]), normalised(2, -7.0, 1e-4)), (2,)),
    "shared_layer": (Net(lambda s, x: s.f(s.f(x)), f=dense([[3.0, 1.0], [0.0, 2.0]])), (2,)),
    "concatenated": (Net(lambda s, x: torch.cat([x, -2 * x, s.f(x)], 1), f=dense([[3.0, 1.0], [0.0, 2.0]])), (2,)),
    "convolutions": (
        seeded(
            lambda: nn.Sequential(
                nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2),
                nn.Conv2d(4, 3, 2, padding="same", dilation=(1, 2)),
                nn.AvgPool2d(2, 1, padding=1),
                nn.Flatten(),
            )
        ),
        (2, 5, 4),
    ),
    "one_dimension": (
        seeded(lambda: nn.Sequential(nn.Conv1d(2, 3, 4, padding="same", dilation=3), nn.Flatten())),
        (2, 5),
    ),
    "down_sampled": (
        seeded(lambda: nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(4, 2, 1), nn.Flatten())),
        (1, 4, 4),
    ),
    "averaged": (Net(lambda s, x: x.permute(0, 3, 1, 2).mean((2, 3))), (2, 4, 3)),
    "cropped": (nn.Sequential(nn.ZeroPad2d((-1, 2, 0, -3)), nn.Flatten()), (2, 4, 3)),
    "adaptive": (nn.Sequential(nn.AdaptiveAvgPool2d((2, 1)), nn.Flatten()), (2, 4, 3)),
    "dropout": (nn.Sequential(nn.Dropout(0.9), dense([[3.0, 1.0], [0.0, 2.0]]), nn.Dropout1d(0.9)), (2,)),
    "dense_on_rows": (seeded(lambda: nn.Sequential(nn.Linear(3, 2), nn.Flatten())), (2, 3)),
}


def built(module: nn.Module, *shape: int, **card: Any) -> Model:
    return model_of(module, *shape, classes=module.eval()(torch.zeros(2, *shape)).shape[1], **card)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", LINEAR)
def test_constants_of_affine_networks_are_exact(name: str, norm: Norm) -> None:
    module, shape = LINEAR[name]
    model = built(module, *shape)
    (rows,) = jacobians(model, torch.zeros(1, *shape))
    expected = torch.linalg.vector_norm(rows[:, None] - rows[None], ord=DUAL[norm], dim=2)
    found = lipschitz(model, norm).margins
    assert (found >= expected).all()
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("norm", NORMS)
def test_preprocessing_belongs_to_the_network(norm: Norm) -> None:
    weight = torch.tensor([[3.0, 1.0], [0.0, 2.0]])
    model = built(dense(weight.tolist()), 2, preprocessing=Preprocessing((0.5, 0.2), (0.1, 0.25)))
    row = (weight[1] - weight[0]).double() / torch.tensor([0.1, 0.25]).double()
    found = lipschitz(model, norm).margins[0, 1]
    assert float(found) == pytest.approx(float(torch.linalg.vector_norm(row, ord=DUAL[norm])), rel=1e-8)


@pytest.mark.parametrize("norm", NORMS)
def test_overlapping_pooling_counts_every_window(norm: Norm) -> None:
    """Gain 3 for 3×3 at stride 1, where other tools say 1. A single pulse moves the maxima of nine windows."""
    sums = dense([[1.0] * 9, [0.0] * 9])
    model, pulse = built(nn.Sequential(nn.MaxPool2d(3, 1), nn.Flatten(), sums), 1, 5, 5), torch.zeros(1, 1, 5, 5)
    pulse[0, 0, 2, 2] = 1.0
    (change,) = model.logits(pulse) - model.logits(torch.zeros_like(pulse))
    assert change.tolist() == [9.0, 0.0]
    assert 9.0 <= float(lipschitz(model, norm).margins[0, 1]) <= 9.0 * (1 + 1e-6)


STEEP: dict[str, nn.Module] = {
    "activation_inside": Net(lambda s, x: x + s.f(x).relu(), f=dense([[3.0, 1.0], [0.0, 2.0]])),
    "negative_activation": Net(lambda s, x: x - 2 * s.f(x).abs(), f=dense([[3.0, 1.0], [0.0, 2.0]])),
    "ends_with_an_activation": nn.Sequential(dense([[3.0, 1.0], [0.0, 2.0]]), nn.ReLU()),
    "ends_with_a_steep_one": nn.Sequential(dense([[3.0, 1.0], [0.0, 2.0]]), nn.LeakyReLU(-4.0)),
    "ends_with_batch_norm": nn.Sequential(nn.ReLU(), dense([[3.0, 1.0], [0.0, 2.0]]), normalised(2, -7.0, 1e-4)),
    "two_ends": Net(lambda s, x: s.f(x.relu()) + s.f(x.tanh()), f=dense([[3.0, 1.0], [0.0, 2.0]])),
    "shared_twice": Net(lambda s, x: s.f(s.f(x).relu()), f=dense([[3.0, 1.0], [0.0, 2.0]])),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", STEEP)
def test_nothing_is_steeper_than_the_constants(name: str, norm: Norm) -> None:
    model = built(STEEP[name], 2)
    x = 4 * torch.randn(500, 2, generator=torch.Generator().manual_seed(0))
    seen, bound = steepest(model, x, norm), lipschitz(model, norm).margins
    assert (seen <= bound).all()
    assert float(seen.max()) > 0.2 * float(bound.max())


def test_activations_are_no_steeper_than_they_are_said_to_be() -> None:
    """GELU, SiLU and SELU rise faster than 1, and the digits in the table are rounded up."""
    x = torch.linspace(-8, 8, 400_001, dtype=torch.float64)[:, None].requires_grad_()
    for name, module in {"gelu": nn.GELU(), "gelu_tanh": nn.GELU("tanh"), "silu": nn.SiLU(), "selu": nn.SELU()}.items():
        (slopes,) = torch.autograd.grad(module(x).sum(), x)
        model = built(nn.Sequential(dense([[1.0], [-1.0]]), module, dense([[1.0, 0.0], [0.0, 0.0]])), 1)
        bound = float(lipschitz(model).margins[0, 1]) / math.sqrt(2)
        assert float(slopes.abs().max()) <= bound <= 1.001 * float(slopes.abs().max()), name


def test_matrix_of_constants_is_symmetric_and_zero_on_the_diagonal() -> None:
    model = built(seeded(lambda: nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))), 5)
    margins = lipschitz(model).margins
    assert torch.equal(margins, margins.T)
    assert torch.equal(margins.diagonal(), torch.zeros(4, dtype=torch.float64))


def test_same_rows_have_a_constant_of_nothing_but_rounding() -> None:
    found = lipschitz(built(dense([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0]]), 2))
    assert 0 <= float(found.margins[0, 1]) < 1e-12
    assert 0 < float(found.rate[0, 1]) < 1e-5


def test_parts_that_cancel_leave_room_for_the_rounding_of_float64() -> None:
    """W·V is 0 but for rounding: what float64 makes of it is not to be trusted."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        basis = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64))[0]
    first, second = nn.Linear(3, 8, bias=False, dtype=torch.float64), nn.Linear(8, 3, bias=False, dtype=torch.float64)
    first.weight.data, second.weight.data = 1e3 * basis[:, :3], 1e3 * basis[:, 3:6].T
    bound = lipschitz(model_of(nn.Sequential(first, second), 3)).margins
    assert (bound[~torch.eye(3, dtype=torch.bool)] > 1e6 * 2.2e-16).all()
    assert float(bound.max()) < 1e-5


@pytest.mark.parametrize("value", [math.nan, math.inf], ids=["nan", "inf"])
def test_damaged_weights_are_refused(value: float) -> None:
    with pytest.raises((ModelError, InputError)):
        lipschitz(model_of(nn.Sequential(dense([[value, 1.0], [1.0, 1.0]]), nn.ReLU()), 2, classes=2))


def test_bounds_beyond_float64_are_refused() -> None:
    """An infinite gain times a zero layer is NaN, which would compare as smaller than anything."""
    layers = [dense([[1e38, 0.0], [0.0, 1e38]]) for _ in range(9)]
    module = nn.Sequential(*(part for layer in layers for part in (layer, nn.Tanh())), dense([[0.0, 0.0], [0.0, 0.0]]))
    with pytest.raises(ModelError, match="too large"):
        lipschitz(model_of(module, 2, classes=2))


def test_unknown_norms_are_refused() -> None:
    with pytest.raises(InputError, match="'norm' parameter"):
        lipschitz(model_of(nn.Linear(2, 2), 2, classes=2), "l3")  # type: ignore[arg-type]
