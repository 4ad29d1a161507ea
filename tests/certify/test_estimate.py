"""The estimate that drives training: below the bounds, near them, and with the gradients of finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from certify.networks import NORMS, Net, drawn, model_of
from modelkeep import Model
from modelkeep.certify.constants import lipschitz
from modelkeep.certify.estimate import MarginEstimate
from modelkeep.certify.operations import AFFINE
from modelkeep.certify.trace import trace_operations
from modelkeep.core.errors import InputError
from modelkeep.core.norms import Norm
from modelkeep.zoo.architectures import MinMax

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


def network(dtype: torch.dtype = torch.float32) -> Model:
    """Convolutions, a residual, batch norm, dense layers: everything that the estimate treats in its own way."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            MinMax(),
            Net(lambda s, x: x + s.inner(x), inner=nn.Conv2d(4, 4, 3, padding=1)),
            nn.ReLU(),
            nn.Conv2d(4, 4, 2, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(36, 8),
            nn.Tanh(),
            nn.Linear(8, 3),
        )
    return model_of(module.to(dtype), 1, 6, 6)


def converged(model: Model, norm: Norm = "l2", steps: int = 60) -> torch.Tensor:
    estimate = MarginEstimate(model, norm)
    for _ in range(steps - 1):
        estimate.margins()
    return estimate.margins().detach()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_estimate_is_below_the_bound_and_comes_near(dtype: torch.dtype) -> None:
    model = network(dtype)
    found, bound = converged(model), lipschitz(model).margins
    assert found.dtype == dtype
    apart = ~torch.eye(3, dtype=torch.bool)
    ratio = found.double()[apart] / bound[apart]
    assert (ratio <= 1 + 1e-5).all()
    assert (ratio > 0.99).all()
    assert torch.equal(found.diagonal(), torch.zeros(3, dtype=dtype))


@pytest.mark.parametrize("seed", [seed for seed in range(40) if seed % 4 == 0])
def test_estimates_of_random_networks_are_below_the_bound(seed: int) -> None:
    """The first call too, whose iterate has come from noise."""
    model = drawn(seed)
    if trace_operations(model)[-1].kind not in AFFINE:
        with pytest.raises(InputError, match="ends with an affine layer"):
            MarginEstimate(model).margins()
        return
    first, last = MarginEstimate(model).margins().detach().double(), converged(model).double()
    bound = lipschitz(model).margins
    for found in (first, last):
        assert (found <= bound * (1 + 1e-4) + 2e-6 * float(bound.max())).all()
    assert float(last.max()) > 0.9 * float(bound.max())


@pytest.mark.parametrize("norm", NORMS)
def test_dense_networks_are_estimated_exactly(norm: Norm) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 5), nn.ReLU(), nn.Linear(5, 4))
    model = model_of(module, 7, classes=4)
    torch.testing.assert_close(
        MarginEstimate(model, norm).margins().detach().double(), lipschitz(model, norm).margins, rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("norm", ["linf", "l1"])
def test_absolute_sums_cover_norms_scales_and_residuals(norm: Norm) -> None:
    """For several operations at once the sums of absolute weights may be above the norm, never below."""
    module = nn.Sequential(
        Net(
            lambda s, x: -2 * x * s.scale + s.norm(x),
            norm=nn.BatchNorm1d(4, affine=False),
            scale=nn.Parameter(-torch.ones(4)),
        ),
        nn.ReLU(),
        nn.Linear(4, 3),
    ).eval()
    model = model_of(module, 4)
    found, bound = MarginEstimate(model, norm).margins().detach().double(), lipschitz(model, norm).margins
    torch.testing.assert_close(found, bound, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_gradients_are_those_of_finite_differences(norm: Norm) -> None:
    model = network(torch.float64)
    weights = torch.arange(9.0, dtype=torch.float64).view(3, 3)
    estimate = MarginEstimate(model, norm)

    def settled() -> torch.Tensor:
        """Where the iterate has settled, its change is of second order; the sums of the other norms have none."""
        for _ in range(40 if norm == "l2" else 0):
            estimate.margins()
        return (estimate.margins() * weights).sum()

    settled()
    parameters = {name: p for name, p in model.module.named_parameters() if name.endswith("weight")}
    gradients = torch.autograd.grad(settled(), list(parameters.values()))
    generator = torch.Generator().manual_seed(0)
    for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        expected, step = float((gradient * direction).sum()), 1e-6
        with torch.no_grad():
            parameter.add_(direction, alpha=step)
            above = settled()
            parameter.sub_(direction, alpha=2 * step)
            below = settled()
            parameter.add_(direction, alpha=step)
        assert float(above - below) / (2 * step) == pytest.approx(expected, rel=1e-3, abs=1e-5), name


def test_a_checkpoint_goes_on_bit_for_bit() -> None:
    model, again = network(), network()
    estimate = MarginEstimate(model)
    for _ in range(3):
        estimate.margins()
    resumed = MarginEstimate(again)
    resumed.load_state_dict({name: value.clone() for name, value in estimate.state_dict().items()})
    for _ in range(3):
        assert torch.equal(estimate.margins(), resumed.margins())


def test_estimate_follows_the_weights() -> None:
    model = network()
    estimate = MarginEstimate(model)
    before = estimate.margins().detach()
    with torch.no_grad():
        dict(model.module.named_parameters())["10.weight"].mul_(3)
    torch.testing.assert_close(estimate.margins().detach(), 3 * before, rtol=0.05, atol=1e-5)


def test_rows_that_sum_to_zero_are_not_missed() -> None:
    """Ones are mapped to nothing by them; the iterate does not start there."""
    layer = nn.Conv2d(1, 1, 3, bias=False)
    layer.weight.data.copy_(torch.tensor([[[[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]]]))
    model = model_of(nn.Sequential(layer, nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)), 1, 6, 6)
    assert float(converged(model).max()) > 0.99 * float(lipschitz(model).margins.max())


def test_networks_that_end_otherwise_are_refused() -> None:
    with pytest.raises(InputError, match="ends with an affine layer"):
        MarginEstimate(model_of(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), 2, classes=2)).margins()


def test_train_mode_and_weights_stay_as_they_were() -> None:
    model = network()
    model.module.train()
    MarginEstimate(model).margins()
    assert model.module.training
    assert all(parameter.requires_grad for parameter in model.module.parameters())
