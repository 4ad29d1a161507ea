"""Linear bounds: never above the true minimum, which is sampled or found by an integer program; exact where affine."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from torch import nn

from certify.networks import NORMS, ORDER, drawn, exactly, model_of
from modelkeep import Model
from modelkeep.certify.linear_bounds import LinearBounds
from modelkeep.certify.trace import tensors_of, trace_operations
from modelkeep.core.errors import ModelError
from modelkeep.core.norms import Norm

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


def least(model: Model, x: torch.Tensor, radius: list[float], norm: Norm, rows: torch.Tensor) -> torch.Tensor:
    """At least the sums of the logits with the coefficients `rows: (r, m)`, `(n, r)`."""
    operations, tensors = trace_operations(model), {k: t.detach().double() for k, t in tensors_of(model.module).items()}
    with torch.no_grad():
        found = LinearBounds(operations, tensors, norm, x.double(), torch.tensor(radius, dtype=torch.float64))
        each = rows.double()[None].expand(len(x), -1, -1)
        name = operations[-1].name
        return torch.maximum(found.at_least(name, each), found.by_intervals(name, each))


def moves(n: int, shape: tuple[int, ...], norm: Norm, generator: torch.Generator) -> torch.Tensor:
    """Directions of length one: random ones, corners and axes."""
    drawn_moves = torch.randn(n, *shape, generator=generator).double()
    drawn_moves[::3] = drawn_moves[::3].sign()
    drawn_moves[1::3] *= torch.rand(drawn_moves[1::3].shape, generator=generator) < 0.15
    length = torch.linalg.vector_norm(drawn_moves.flatten(1), ord=ORDER[norm], dim=1).clamp(min=1e-12)
    directions: torch.Tensor = drawn_moves / length.view(-1, *(1,) * len(shape))
    return directions


@pytest.mark.parametrize("seed", range(400, 414))
def test_no_random_network_goes_below_its_bounds(seed: int) -> None:
    try:
        model = drawn(seed)
    except ModelError:  # it ends in sigmoids
        return
    generator = torch.Generator().manual_seed(seed)
    x, radius = torch.randn(3, *model.input_shape, generator=generator), [0.01, 0.2, 1.0]
    rows = torch.cat([torch.eye(len(model.classes)), -torch.eye(len(model.classes))])
    for norm in NORMS:
        low = least(model, x, radius, norm, rows)
        away = moves(200, model.input_shape, norm, generator)
        for one, far, limit in zip(x.double(), radius, low, strict=True):
            seen = (exactly(model)(one + far * away).detach() @ rows.double().T).amin(dim=0)
            assert (limit <= seen + 1e-12).all(), norm


@pytest.mark.parametrize("norm", NORMS)
def test_of_an_affine_network_they_are_exact(norm: Norm) -> None:
    model = drawn(203, ("none",))
    x = torch.randn(2, *model.input_shape, generator=torch.Generator().manual_seed(0))
    rows = torch.eye(len(model.classes))
    at = x.double().requires_grad_()
    logits = exactly(model)(at)
    dual = {"l2": 2.0, "linf": 1.0, "l1": math.inf}[norm]
    for k, found in enumerate(least(model, x, [0.3, 0.7], norm, rows).T):
        (slope,) = torch.autograd.grad(logits[:, k].sum(), at, retain_graph=True)
        lost = torch.tensor([0.3, 0.7]) * torch.linalg.vector_norm(slope.flatten(1), ord=dual, dim=1)
        torch.testing.assert_close(found, logits[:, k].detach() - lost, rtol=1e-6, atol=1e-6)


def smallest(first: nn.Linear, second: nn.Linear, x: torch.Tensor, radius: float) -> float:
    """The true minimum of f_0 - f_1 in the box around x, by an integer program: which ReLUs are active."""
    w1, b1 = first.weight.detach().double().numpy(), first.bias.detach().double().numpy()
    row = (second.weight[0] - second.weight[1]).detach().double().numpy()
    offset = float((second.bias[0] - second.bias[1]).detach())
    h, d = w1.shape
    centre = w1 @ x.double().numpy() + b1
    low, high = centre - radius * np.abs(w1).sum(1), centre + radius * np.abs(w1).sum(1)
    eye, none = np.eye(h), np.zeros((h, h))
    # The variables: the input, the hidden values a, and whether each is active, s.
    lines = [
        LinearConstraint(np.hstack([-w1, eye, none]), b1, np.inf),  # a ≥ w x + b
        LinearConstraint(np.hstack([-w1, eye, np.diag(-np.minimum(low, 0))]), -np.inf, b1 - np.minimum(low, 0)),
        LinearConstraint(np.hstack([np.zeros((h, d)), eye, -np.diag(np.maximum(high, 0))]), -np.inf, 0),
    ]
    at = x.double().numpy()
    limits = Bounds(
        np.concatenate([at - radius, np.zeros(2 * h)]),
        np.concatenate([at + radius, np.maximum(high, 0), np.ones(h)]),
    )
    integral = np.concatenate([np.zeros(d + h), np.ones(h)])
    cost = np.concatenate([np.zeros(d), row, np.zeros(h)])
    found = milp(cost, constraints=lines, bounds=limits, integrality=integral)
    assert found.success
    return float(found.fun) + offset


@pytest.mark.parametrize("seed", range(4))
def test_an_integer_program_finds_nothing_smaller(seed: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first, second = nn.Linear(3, 8), nn.Linear(8, 2)
    model = model_of(nn.Sequential(first, nn.ReLU(), second), 3, classes=2)
    x = torch.randn(3, 3, generator=torch.Generator().manual_seed(seed))
    radius = [0.05, 0.3, 1.0]
    found = least(model, x, radius, "linf", torch.tensor([[1.0, -1.0]])).flatten().tolist()
    for one, far, limit in zip(x, radius, found, strict=True):
        true = smallest(first, second, one, far)
        assert true - 1.5 * far <= limit <= true + 1e-6
