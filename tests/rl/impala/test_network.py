"""The network has table 7's weights, forgets at the ends of episodes, and thinks step by step or all at once alike."""

from __future__ import annotations

import pytest
import torch

from modelkeep.rl.impala.network import ImpalaNetwork, minatar_network


def test_the_weights_are_as_many_as_in_table_7() -> None:
    network = ImpalaNetwork((3, 144, 192), 9)
    weights = {name: parameter.numel() for name, parameter in network.named_parameters() if "bias" not in name}
    assert weights["section1.conv1.weight"] == 432
    assert weights["section2.conv1.weight"] == 4_608
    assert weights["section3.conv1.weight"] == 9_216
    assert weights["linear.weight"] == 3_538_944
    assert sum(parameter.numel() for parameter in network.lstm.parameters()) == 526_336
    assert sum(".blocks." in name for name in weights) == 3 * 2 * 2  # 15 convolutions with the first ones: figure 3
    logits, values, memory = network(
        torch.zeros(1, 1, 3, 144, 192, dtype=torch.uint8), torch.ones(1, 1, dtype=torch.bool), network.blank(1)
    )
    assert (logits.shape, values.shape, memory[0].shape) == ((1, 1, 9), (1, 1), (1, 256))


@pytest.fixture
def network() -> ImpalaNetwork:
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(0)
        return minatar_network((4, 10, 10), 3)


@pytest.fixture
def seen() -> torch.Tensor:
    return torch.randint(0, 2, (6, 2, 4, 10, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def test_step_by_step_it_says_the_same_as_all_at_once(network: ImpalaNetwork, seen: torch.Tensor) -> None:
    begun = torch.tensor([[1, 1], [0, 0], [0, 1], [0, 0], [1, 0], [0, 0]], dtype=torch.bool)
    memory = tuple(torch.randn(2, 2, 128, generator=torch.Generator().manual_seed(2)))
    logits, values, last = network(seen, begun, memory)
    for t in range(6):
        one, value, memory = network(seen[t : t + 1], begun[t : t + 1], memory)
        torch.testing.assert_close(one[0], logits[t])
        torch.testing.assert_close(value[0], values[t])
    torch.testing.assert_close(memory, last)


def test_what_was_before_an_episode_is_forgotten_and_only_then(network: ImpalaNetwork, seen: torch.Tensor) -> None:
    begun = torch.zeros(6, 2, dtype=torch.bool)
    begun[3, 0] = True
    other = seen.clone()
    other[:3] = 1 - other[:3]
    first, _, _ = network(seen, begun, network.blank(2))
    second, _, _ = network(other, begun, network.blank(2))
    assert torch.equal(first[3:, 0], second[3:, 0])
    assert not torch.allclose(first[3:, 1], second[3:, 1])


def test_bytes_of_a_camera_are_scaled_to_one() -> None:
    network = ImpalaNetwork((1, 8, 8), 2, channels=(4,), blocks=1, linear=8, lstm=8)
    white = torch.full((1, 1, 1, 8, 8), 255, dtype=torch.uint8)
    begun = torch.ones(1, 1, dtype=torch.bool)
    torch.testing.assert_close(network(white, begun, network.blank(1))[0], _unscaled(network, begun))


def _unscaled(network: ImpalaNetwork, begun: torch.Tensor) -> torch.Tensor:
    network.scale = 1.0
    logits: torch.Tensor = network(torch.ones(1, 1, 1, 8, 8, dtype=torch.uint8), begun, network.blank(1))[0]
    return logits
