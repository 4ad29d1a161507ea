"""The noise's variance in closed form, the streams by hand, and table 6's counts."""

from __future__ import annotations

import math

import pytest
import torch

from modelkeep.core.errors import InputError
from modelkeep.rl.networks import MINATAR
from modelkeep.rl.rainbow import RainbowNetwork, atari_rainbow, minatar_rainbow
from modelkeep.rl.rainbow.noisy import NoisyLinear


def test_noise_has_the_mean_and_variance_of_its_closed_form() -> None:
    torch.manual_seed(0)
    layer = NoisyLinear(3, 2)
    layer.weight_noise.data.uniform_(0.1, 1)
    layer.bias_noise.data.uniform_(0.1, 1)
    x, g = torch.tensor([[0.5, -1.0, 2.0]]), torch.Generator().manual_seed(1)
    with torch.no_grad():
        drawn = torch.cat([layer(x, g) for _ in range(10_000)])
        # y = μ + ε_out (Σ_j σ_j x_j ε_j + σ_b) with f(ε) of mean 0 and E f(ε)² = E|ε| = √(2/π) = c: two factors of c
        # for a weight, one for the bias.
        c = math.sqrt(2 / math.pi)
        variance = c**2 * (layer.weight_noise**2) @ x[0] ** 2 + c * layer.bias_noise**2
        assert torch.allclose(drawn.mean(0), layer(x)[0], atol=0.03)
        assert torch.allclose(drawn.var(0), variance, rtol=0.08)


def test_begins_as_published_and_draws_no_global_numbers_when_called() -> None:
    layer = NoisyLinear(400, 30)
    bound = 1 / math.sqrt(400)
    assert layer.weight.abs().max() <= bound
    assert layer.weight.var().item() == pytest.approx(bound**2 / 3, rel=0.05)  # of a uniform distribution
    assert torch.equal(layer.weight_noise, torch.full((30, 400), 0.5 * bound))
    before = torch.get_rng_state()
    x = torch.ones(1, 400)
    first, second = (layer(x, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, layer(x))
    assert torch.equal(before, torch.get_rng_state())


def test_streams_are_put_together_by_atom() -> None:
    network = minatar_rainbow(channels=4, actions=3)
    x = torch.randint(0, 2, (2, 4, 10, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    h = network.features(x)
    value = network.value(network.linear(h)[:, :64].relu())
    advantage = network.advantage(network.linear(h)[:, 64:].relu())
    logits = network(x)
    for action in range(3):
        for atom in (0, 17, 50):
            mean = sum(advantage[:, a * 51 + atom] for a in range(3)) / 3
            by_hand = value[:, atom] + advantage[:, action * 51 + atom] - mean
            assert torch.allclose(logits[:, action, atom], by_hand, atol=1e-6)


def test_convolutions_have_table_6s_counts() -> None:
    network = atari_rainbow()
    counts = [sum(p.numel() for p in network.get_submodule(f"conv{i}").parameters()) for i in (1, 2, 3)]
    assert counts == [8_192, 32_768, 36_864]
    children = [name for name, _ in network.named_children()]
    assert children == ["conv1", "conv2", "conv3", "linear", "value", "advantage"]
    assert network(torch.zeros(1, 4, 84, 84, dtype=torch.uint8)).shape == (1, 18, 51)


def test_says_what_a_network_needs() -> None:
    with pytest.raises(InputError, match="'atoms' parameter of RainbowNetwork must be at least 2"):
        RainbowNetwork(MINATAR, (4, 10, 10), 8, 3, atoms=1)
