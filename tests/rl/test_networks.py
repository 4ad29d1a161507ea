"""The agents' networks: table 5's counts, and what the layers compute."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep.core.errors import InputError
from modelkeep.rl.networks import ActorCritic, Convolution, Convolutional, Torso, atari_actor_critic
from modelkeep.rl.networks import minatar_actor_critic as minatar


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_atari_network_has_table_5s_counts() -> None:
    network = atari_actor_critic()
    counts = {name: count(child) for name, child in network.named_children()}
    expected = {"conv1": 8_192, "conv2": 32_768, "conv3": 36_864, "linear": 1_179_648, "policy": 9_216, "value": 512}
    assert counts == expected
    assert list(counts) == list(expected)
    assert count(network) == 1_267_200


def test_the_atari_network_takes_bytes_of_84_by_84() -> None:
    logits, values = atari_actor_critic(6)(torch.full((3, 4, 84, 84), 255, dtype=torch.uint8))
    assert logits.shape == (3, 6)
    assert values.shape == (3,)


def test_bytes_are_scaled_to_at_most_one() -> None:
    torso = Torso((Convolution(1, 1),), unit=255.0, bias=False)
    network = Convolutional(torso, (1, 2, 2))
    nn.init.ones_(network.get_parameter("conv1.weight"))
    features = network.features(torch.tensor([[[[0, 51], [102, 255]]]], dtype=torch.uint8))
    torch.testing.assert_close(features, torch.tensor([[0.0, 0.2, 0.4, 1.0]]))


def test_the_minatar_network_is_the_plain_stack_of_its_layers() -> None:
    network = minatar(channels=4, actions=3)
    assert [name for name, _ in network.named_children()] == ["conv1", "conv2", "linear", "policy", "value"]
    observations = torch.randint(0, 2, (5, 4, 10, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    conv1, conv2, linear, policy, value = network.children()
    hidden = nn.Sequential(conv1, nn.ReLU(), conv2, nn.ReLU(), nn.Flatten(), linear, nn.ReLU())(
        10 * observations.float()
    )
    logits, values = network(observations)
    torch.testing.assert_close(logits, policy(hidden))
    torch.testing.assert_close(values, value(hidden)[:, 0])


@pytest.mark.parametrize(
    ("shape", "actions", "said"),
    [((10, 10), 3, "channels, height, width"), ((4, 4, 4), 3, "too small"), ((4, 10, 10), 0, "actions")],
    ids=["no channels", "too small", "no actions"],
)
def test_a_network_that_cannot_be_is_refused(shape: tuple[int, ...], actions: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        ActorCritic(Torso((Convolution(2, 3), Convolution(2, 3)), 1.0, True), shape, 8, actions)


def test_the_weights_of_the_atari_network_begin_orthogonal_and_keep_the_scale() -> None:
    torch.manual_seed(0)
    network = atari_actor_critic(6)
    for name, gain in {"conv1": 2**0.5, "conv2": 2**0.5, "conv3": 2**0.5, "policy": 0.01, "value": 1.0}.items():
        rows = network.get_parameter(f"{name}.weight").flatten(1)
        torch.testing.assert_close(rows @ rows.T, gain**2 * torch.eye(len(rows)), atol=1e-5, rtol=0)
    again = network.get_parameter("linear.weight").clone()
    network.linear.reset_parameters()  # as completion draws a missing layer
    columns = network.linear.weight
    assert not columns.equal(again)
    torch.testing.assert_close(columns @ columns.T, 2 * torch.eye(len(columns)), atol=1e-4, rtol=0)


def test_the_biases_of_an_orthogonal_network_begin_at_zero() -> None:
    network = ActorCritic(Torso((Convolution(2, 3),), 1.0, bias=True, orthogonal=True), (1, 4, 4), 8, 3)
    assert all(not parameter.any() for name, parameter in network.named_parameters() if name.endswith("bias"))
