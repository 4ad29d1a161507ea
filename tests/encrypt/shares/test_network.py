"""Networks on shares against the same networks in floating point; rounds and bytes against their closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from modelkeep.encrypt.polynomial import Polynomial
from modelkeep.encrypt.shares.keys import Keys
from modelkeep.encrypt.shares.local import Local
from modelkeep.encrypt.shares.network import Layer
from modelkeep.encrypt.shares.programs import Inference, InferencePlan, Secrets, Training, TrainingPlan
from modelkeep.encrypt.shares.reading import read_layers
from modelkeep.encrypt.shares.ring import ShareRing


def build(sizes: Sequence[int], activation: str) -> nn.Sequential:
    torch.manual_seed(0)
    made: dict[str, Callable[[], nn.Module]] = {
        "square": Polynomial,
        "relu": nn.ReLU,
        "poly": lambda: Polynomial(0.2, 1.25, -0.4),
    }
    parts: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        parts += [nn.Linear(inputs, outputs), made[activation]()]
    return nn.Sequential(*parts[:-1])


@pytest.mark.parametrize("activation", ["square", "relu", "poly"])
def test_three_layers_give_what_the_network_gives(activation: str) -> None:
    module = build([6, 5, 4, 3], activation)
    layers, values = read_layers(module)
    x = torch.randn(11, 6)
    here = Local(ShareRing(), Keys.draw())
    first, second = Inference(InferencePlan(tuple(layers), (7, 4)), Secrets(values, x)).run(here.run)
    assert first is not None
    assert second is not None
    assert float((torch.cat([first, second]) - module(x).detach()).abs().max()) < 1e-4


def test_rounds_and_bytes_of_an_inference() -> None:
    layers = (Layer(64, 32, "square"), Layer(32, 10, "none"))
    values = [(torch.zeros(64, 32), torch.zeros(32)), (torch.zeros(32, 10), torch.zeros(10))]
    n = 9
    here = Local(ShareRing(), Keys.draw())
    Inference(InferencePlan(layers, (n,)), Secrets(values, torch.zeros(n, 64))).run(here.run)
    assert here.traffic.rounds == 1 + 6  # the weights once; then input, cut, square, cut, hidden units, result
    assert here.traffic.opened == 48 * (64 * 32 + 32 * 10 + n * (64 + 4 * 32))
    assert here.traffic.revealed == 16 * n * 10
    assert here.traffic.dealt == 8 * n * (32 + 2 * 32 + 32 + 2 * 32 + 10)


def descend(module: nn.Sequential, x: Tensor, y: Tensor, plan: TrainingPlan) -> None:
    """The same training by autograd."""
    for number in range(plan.steps):
        at = torch.arange(number * plan.batch_size, (number + 1) * plan.batch_size) % len(x)
        module.zero_grad()
        (0.5 * ((module(x[at]) - y[at]) ** 2).sum()).backward()
        with torch.no_grad():
            for parameter in (each for part in module if isinstance(part, nn.Linear) for each in part.parameters()):
                assert parameter.grad is not None
                parameter.sub_(parameter.grad, alpha=2.0**-plan.halvings)


@pytest.mark.parametrize("activation", ["square", "relu"])
def test_training_follows_autograd(activation: str) -> None:
    module = build([5, 4, 4, 2], activation).double()
    layers, values = read_layers(module)
    values = [(weight.clone(), bias.clone()) for weight, bias in values]
    x, y = torch.randn(10, 5).double(), torch.randn(10, 2).double()
    plan = TrainingPlan(tuple(layers), batch_size=4, steps=6, halvings=6)
    found = Training(plan, Secrets(values, x, y)).run(Local(ShareRing(), Keys.draw()).run)
    descend(module, x, y, plan)
    linear = [part for part in module if isinstance(part, nn.Linear)]
    expected = [each for part in linear for each in (part.weight.detach().T, part.bias.detach())]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours is not None
        torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=0)


def test_rounds_of_a_training_step() -> None:
    layers = (Layer(6, 5, "square"), Layer(5, 3, "none"))
    values = [(torch.zeros(6, 5), torch.zeros(5)), (torch.zeros(5, 3), torch.zeros(3))]
    here = Local(ShareRing(), Keys.draw())
    plan = TrainingPlan(layers, batch_size=4, steps=1, halvings=4)
    Training(plan, Secrets(values, torch.zeros(4, 6), torch.zeros(4, 3))).run(here.run)
    m = 4
    forward = m * 6 + 6 * 5 + 5 * 3 + m * (5 + 5 + 5 + 5 + 3)  # inputs, weights; cut, square, cut, hidden units, cut
    backward = m * 3 + (5 * 3 + 3 + m * 5) + m * 5 + m * 5 + m * 5 + (6 * 5 + 5)
    assert here.traffic.rounds == 12 + 4  # and the four tensors that are revealed at the end
    assert here.traffic.opened == 48 * (forward + backward)
