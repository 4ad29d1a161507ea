"""V-trace against its definition, written as the paper's sums and products."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from modelkeep.rl.impala.vtrace import vtrace


def drawn(seed: int, time: int, batch: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Log ratios, rewards, discounts with some ends of episodes, values and the last value."""
    generator = torch.Generator().manual_seed(seed)
    ratios, rewards, values = torch.randn(3, time, batch, generator=generator, dtype=torch.float64)
    ended = torch.rand(time, batch, generator=generator) < 0.2
    return ratios, rewards, 0.9 * ~ended, values, torch.randn(batch, generator=generator, dtype=torch.float64)


def by_definition(
    log_ratios: Tensor, rewards: Tensor, discounts: Tensor, values: Tensor, last: Tensor, rho_bar: float, c_bar: float
) -> list[list[float]]:
    """Equation (1), number by number; γ^{t−s} becomes the product of the steps' discounts."""
    time, batch = rewards.shape
    v = torch.cat([values, last[None]]).tolist()
    found = [[0.0] * batch for _ in range(time)]
    for b in range(batch):
        for s in range(time):
            total = v[s][b]
            for t in range(s, time):
                weight = 1.0
                for i in range(s, t):
                    weight *= float(discounts[i, b]) * min(c_bar, math.exp(log_ratios[i, b]))
                rho = min(rho_bar, math.exp(log_ratios[t, b]))
                total += weight * rho * (float(rewards[t, b]) + float(discounts[t, b]) * v[t + 1][b] - v[t][b])
            found[s][b] = total
    return found


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    time=st.integers(1, 7),
    batch=st.integers(1, 3),
    bars=st.sampled_from([(1.0, 1.0), (2.0, 0.5), (math.inf, 1.0)]),
)
def test_the_targets_are_equation_1(seed: int, time: int, batch: int, bars: tuple[float, float]) -> None:
    given_ = drawn(seed, time, batch)
    targets = vtrace(*given_, rho_bar=bars[0], c_bar=bars[1])
    expected = torch.tensor(by_definition(*given_, *bars), dtype=torch.float64)
    torch.testing.assert_close(targets.values, expected)
    following = torch.cat([expected[1:], given_[4][None]])
    ratios, rewards, discounts, values, _ = given_
    advantages = ratios.exp().clamp(max=bars[0]) * (rewards + discounts * following - values)
    torch.testing.assert_close(targets.advantages, advantages)


def test_on_policy_they_are_the_n_step_bellman_targets() -> None:
    _, rewards, discounts, values, last = drawn(3, 6, 4)
    expected = torch.empty_like(values)
    following = last
    for s in reversed(range(6)):
        following = expected[s] = rewards[s] + discounts[s] * following
    found = vtrace(torch.zeros_like(rewards), rewards, discounts, values, last)
    torch.testing.assert_close(found.values, expected)
    torch.testing.assert_close(found.advantages, expected - values)


def test_an_end_of_an_episode_lets_nothing_through() -> None:
    ratios, rewards, discounts, values, last = drawn(4, 5, 2)
    discounts[2] = 0
    before = vtrace(ratios, rewards, discounts, values, last).values[:3]
    torch.testing.assert_close(
        vtrace(ratios, rewards + (torch.arange(5) > 2)[:, None], discounts, values, last + 9).values[:3], before
    )


@pytest.mark.parametrize("corrected", [True, False])
def test_the_policy_that_acted_biases_the_values_unless_corrected(corrected: bool) -> None:
    """One state, two actions with rewards 1 and 0: μ takes the first in 90 % of the steps, π in 50 %.

    With ρ̄ = ∞ V-trace's fixed point is V^π = ½ / (1 − γ). With ρ̄ = 1 it is the value of a policy between both,
    π_ρ̄ ∝ min(μ, π) = (½, 1/10), as the paper's section 4.1 says. Uncorrected it is that of μ: 0.9 / (1 − γ).
    """
    mu, pi, gamma = torch.tensor([0.9, 0.1]), torch.tensor([0.5, 0.5]), 0.5
    actions = torch.multinomial(mu, 20_000 * 5, replacement=True, generator=torch.Generator().manual_seed(0))
    actions = actions.view(5, 20_000)
    log_ratios = (pi / mu).log()[actions] * corrected
    rewards, discounts = (actions == 0).float(), torch.full((5, 20_000), gamma)

    def fixed_point(rho_bar: float) -> float:
        value = torch.tensor(0.0)
        for _ in range(60):
            found = vtrace(
                log_ratios, rewards, discounts, value.expand(5, 20_000), value.expand(20_000), rho_bar=rho_bar
            )
            value = found.values[0].mean()
        return float(value)

    if corrected:
        assert fixed_point(math.inf) == pytest.approx(0.5 / (1 - gamma), abs=0.03)
        assert fixed_point(1.0) == pytest.approx(0.5 / 0.6 / (1 - gamma), abs=0.03)
    else:
        assert fixed_point(1.0) == pytest.approx(0.9 / (1 - gamma), abs=0.03)


def test_no_gradient_goes_through_the_targets() -> None:
    ratios, rewards, discounts, values, last = drawn(5, 3, 2)
    found = vtrace(ratios, rewards, discounts, values.requires_grad_(), last)
    assert not found.values.requires_grad
    assert not found.advantages.requires_grad
