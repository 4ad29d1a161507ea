"""The projection against C51's algorithm 1 as a loop, and what it must conserve."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkeep.rl.rainbow.distribution import mean, project


def algorithm_1(p: list[float], reward: float, discount: float, z: list[float]) -> list[float]:
    """Bellemare et al. (2017), algorithm 1, word for word; where b is whole, l = u takes all."""
    m, spacing = [0.0] * len(z), z[1] - z[0]
    for j in range(len(z)):
        moved = min(max(reward + discount * z[j], z[0]), z[-1])
        b = (moved - z[0]) / spacing
        low, high = math.floor(b), math.ceil(b)
        if low == high:
            m[low] += p[j]
        else:
            m[low] += p[j] * (high - b)
            m[high] += p[j] * (b - low)
    return m


@given(seed=st.integers(0, 1000), atoms=st.sampled_from([2, 5, 51]))
@settings(max_examples=30, deadline=None)
def test_project_is_algorithm_1(seed: int, atoms: int) -> None:
    g = torch.Generator().manual_seed(seed)
    support = torch.linspace(-10, 10, atoms, dtype=torch.float64)
    p = torch.randn(4, atoms, generator=g, dtype=torch.float64).softmax(1)
    returns = torch.randn(4, generator=g, dtype=torch.float64) * 8
    discounts = torch.tensor([0.0, 0.97, 1.0, 0.5], dtype=torch.float64)
    returns[2] = 0.0
    projected = project(p, returns, discounts, support)
    for i in range(4):
        slow = algorithm_1(p[i].tolist(), float(returns[i]), float(discounts[i]), support.tolist())
        assert torch.allclose(projected[i], torch.tensor(slow, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(projected.sum(1), torch.ones(4, dtype=torch.float64))


def test_where_nothing_leaves_the_support_the_mean_is_kept() -> None:
    support = torch.linspace(-10, 10, 51, dtype=torch.float64)
    p = torch.rand(8, 51, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(1)
    returns, discounts = torch.linspace(-5, 5, 8, dtype=torch.float64), torch.full((8,), 0.4, dtype=torch.float64)
    projected = project(p, returns, discounts, support)
    assert torch.allclose(projected @ support, returns + discounts * (p @ support))
    assert torch.allclose(mean(projected[:, None], support)[:, 0], returns + discounts * (p @ support))


def test_an_end_puts_all_on_the_return() -> None:
    support = torch.linspace(0, 4, 5)
    p = torch.full((3, 5), 0.2)
    projected = project(p, torch.tensor([2.0, 9.0, -1.0]), torch.zeros(3), support)
    assert torch.equal(projected, torch.eye(5)[[2, 4, 0]])
