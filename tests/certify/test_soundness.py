"""No violation ever: random networks against brute force and search, and attacks on every certified input."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from certify.networks import NORMS, drawn, exactly, steepest
from modelkeep import Data, Model
from modelkeep.attack.minimum_norm.ddn import DDN
from modelkeep.certify import Certify, lipschitz, train_certified
from modelkeep.core.norms import Norm
from modelkeep.papers.leino2022.attacks_on_certificates import attack_certified
from modelkeep.training import Linear, Recipe, cross_entropy, fit
from modelkeep.zoo.architectures import MinMax
from modelkeep.zoo.datasets import load

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


def spread(model: Model, seed: int) -> torch.Tensor:
    """Inputs from near 0, where activations bend, to far out."""
    x = torch.randn(24, *model.input_shape, generator=torch.Generator().manual_seed(seed))
    return x * torch.tensor([0.1, 1, 5, 30]).repeat(6).view(-1, *(1 for _ in model.input_shape))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(100, 130))
def test_no_random_network_is_steeper_than_its_constants(seed: int, norm: Norm) -> None:
    """By its Jacobians at many inputs, and by the change between them."""
    model = drawn(seed)
    assert (steepest(model, spread(model, seed), norm) <= lipschitz(model, norm).margins * (1 + 1e-12) + 1e-12).all()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(200, 220))
def test_constants_of_random_affine_networks_are_exact(seed: int, norm: Norm) -> None:
    model = drawn(seed, ("none",))
    x = spread(model, seed)
    torch.testing.assert_close(lipschitz(model, norm).margins, steepest(model, x, norm), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", range(300, 308))
def test_climbing_finds_nothing_steeper(seed: int) -> None:
    """Gradient ascent on the slope between two inputs, for the steepest pair of classes."""
    model = drawn(seed)
    run, bound = exactly(model), lipschitz(model).margins
    i, j = divmod(int(bound.argmax()), len(model.classes))
    x = spread(model, seed).double()
    ends = torch.stack([x, x + 0.1 * x.roll(1, 0)]).requires_grad_()
    climber = torch.optim.Adam([ends], lr=0.05)
    for _ in range(60):
        change = (run(ends[0]) - run(ends[1]))[:, [i, j]]
        slope = (change[:, 0] - change[:, 1]) / (ends[0] - ends[1]).flatten(1).norm(dim=1).clamp(min=1e-9)
        assert (slope.abs() <= bound[i, j] * (1 + 1e-9)).all()
        climber.zero_grad()
        (gradient,) = torch.autograd.grad(-slope.abs().sum(), ends)
        ends.grad = gradient
        climber.step()


@pytest.fixture(scope="module")
def digits() -> tuple[Data, Data]:
    train, held_out = load("digits").split(0.7, 0.3, seed=0)
    return train, held_out.first(60)


def trained(train: Data, how: str, norm: Norm) -> Model:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            MinMax() if how == "gloro" else nn.ReLU(),
            nn.Conv2d(8, 8, 4, 2, padding=1),
            MinMax() if how == "gloro" else nn.ReLU(),
            nn.Flatten(),
            nn.Linear(128, 10),
        )
    model = Model(module, input_shape=(1, 8, 8), classes=train.classes)
    if how == "gloro":
        recipe = Recipe(epochs=5, batch_size=64, learning_rate=Linear(5e-3, 0.0))
        train_certified(model, train, {"l2": 0.3, "linf": 0.02, "l1": 0.3}[norm], seed=0, norm=norm, recipe=recipe)
    else:
        fit(model, train, cross_entropy, Recipe(epochs=3, batch_size=64, learning_rate=3e-3), seed=0)
    return model


@pytest.mark.parametrize(("how", "norm"), [("gloro", "l2"), ("plain", "l2"), ("gloro", "linf")])
def test_no_attack_succeeds_within_a_certified_radius(digits: tuple[Data, Data], how: str, norm: Norm) -> None:
    """The standard ensemble and FMN, on every certified input at its own radius; farther out they do succeed."""
    train, held_out = digits
    model = trained(train, how, norm)
    found = attack_certified(model, held_out, norm, group=30, steps=10, queries=30, seed=0)
    assert found.certified == len(held_out)
    assert found.broken == ()
    assert 1 <= found.nearest < 20
    assert found.farther.value > (0.9 if norm == "l2" else 0.3)
    if norm == "l2":
        radii = Certify(radius=0.3)(model, held_out).radii
        smallest = DDN(steps=30)(model, Data(held_out.x, model.predict(held_out.x), held_out.classes), seed=0)
        assert (smallest.distance.double() >= radii)[smallest.success].all()
        assert smallest.success.float().mean() > 0.9
