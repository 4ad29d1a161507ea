"""The module that is trained computes what the integer network computes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep.core.errors import InputError, ModelError
from modelkeep.encrypt.integers.straight_through import Bits, StraightThrough


def module(activation: nn.Module, bits: Bits) -> StraightThrough:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(6, 8), activation, nn.Linear(8, 5), activation, nn.Linear(5, 3))
    made = StraightThrough(network, torch.full((6,), -1.0), torch.full((6,), 2.0), bits)
    made.calibrate(torch.rand(200, 6) * 3 - 1)
    return made


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SiLU()])
def test_the_module_and_its_integers_give_the_same_sums(activation: nn.Module) -> None:
    made = module(activation, Bits(3, 4, 3))
    x = torch.rand(100, 6) * 4 - 1.5  # also beyond the range
    network = made.to_integers()
    last = made._dense()[-1]
    sums = made(x) / last.steps(made._dense()[-2].out_step())[1]
    torch.testing.assert_close(sums, network.scores(network.encoder(x)).float(), rtol=0, atol=1e-3)
    assert network.never_wraps


def test_many_bits_come_near_the_float_network() -> None:
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    made = StraightThrough(network, torch.zeros(6), torch.ones(6), Bits(10, 10, 10, modulus=30))
    x = torch.rand(300, 6)
    made.calibrate(x)
    assert (made(x) - network(x)).abs().mean() < 0.01


def test_a_gradient_passes_the_rounding() -> None:
    made = module(nn.ReLU(), Bits())
    made(torch.rand(50, 6)).square().sum().backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten(), nn.Linear(4, 2)), r"The layer '0' \(Conv2d\)"),
        (nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), r"The layer '1' \(Linear\)"),
        (nn.Sequential(nn.Linear(4, 4), nn.ReLU()), "ends with a Linear layer"),
        (nn.TransformerEncoderLayer(4, 1), "nn.Sequential"),
    ],
)
def test_a_network_without_an_integer_form_is_refused_by_layer(network: nn.Module, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        StraightThrough(network, torch.zeros(4), torch.ones(4), Bits())


def test_bits_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="'weights' parameter of Bits must be from 2 to 12"):
        Bits(weights=1)
