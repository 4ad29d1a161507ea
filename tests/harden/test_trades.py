"""TRADES: its two terms by hand on logistic regression, and plain training where there is no radius."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.distributions import Categorical, kl_divergence

from modelkeep import Data, Model
from modelkeep.attack import PGD
from modelkeep.core.errors import InputError
from modelkeep.harden import Trades
from modelkeep.training import Linear, Recipe, Step, cross_entropy, fit

Make = Callable[[], Model]


def a_step(number: int = 0) -> Step:
    return Step(number, 10, 10, generator=torch.Generator().manual_seed(5))


def terms(objective: Trades, model: Model, x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """The whole loss and the divergence in it."""
    found = objective(model, x, y, a_step())
    assert isinstance(found, tuple)
    return found[0].item(), found[1]["divergence"].item()


def test_the_divergence_is_that_of_an_input_at_the_edge(linear: Model) -> None:
    # The divergence from the clean answer is convex in the margin: it is largest where the margin is moved as far as it
    # goes, by radius · ‖w‖₁, up or down.
    weight, bias = linear.module.parameters()
    random = torch.Generator().manual_seed(1)
    for label in (0, 1, 0, 1, 1):
        x = torch.randn(1, 6, dtype=torch.float64, generator=random)
        loss, divergence = terms(Trades(radius=0.2, beta=3.0, steps=20), linear, x, torch.tensor([label]))
        clean = Categorical(logits=x @ weight.T + bias)
        way = 0.2 * (weight[1] - weight[0]).sign()
        edges = [kl_divergence(clean, Categorical(logits=(x + s * way) @ weight.T + bias)).item() for s in (1, -1)]
        assert any(divergence == pytest.approx(edge, rel=1e-9) for edge in edges)
        assert loss == pytest.approx(-clean.logits[0, label].item() + 3 * divergence, rel=1e-9)


def test_the_divergence_vanishes_with_the_radius(linear: Model) -> None:
    x, y = torch.randn(9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)), torch.arange(9) % 2
    plain = cross_entropy(linear, x, y, a_step()).item()
    divergences = []
    for radius in (1e-1, 1e-2, 1e-3):
        loss, divergence = terms(Trades(radius=radius), linear, x, y)
        assert loss == pytest.approx(plain + 6 * divergence, rel=1e-12)
        divergences.append(divergence)
    # Quadratically: clean answers are where it is smallest.
    assert divergences[0] / divergences[1] == pytest.approx(100, rel=0.3)
    assert divergences[1] / divergences[2] == pytest.approx(100, rel=0.05)


def test_without_a_radius_it_is_plain_training(fresh: Make, digits: tuple[Data, Data]) -> None:
    one, other, data, recipe = fresh(), fresh(), digits[0].first(40), Recipe(steps=4, batch_size=20)
    fit(one, data, Trades(radius=Linear(0.0, 0.0)), recipe, seed=0)
    fit(other, data, cross_entropy, recipe, seed=0)
    ours, theirs = one.module.state_dict(), other.module.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_larger_beta_trades_accuracy_on_the_examples_for_sameness_around_them(digits: tuple[Data, Data]) -> None:
    train, held_out = digits
    robust = {}
    for beta in (0.0, 6.0):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = torch.nn.Sequential(
                torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
            )
        model = Model(module, input_shape=(1, 8, 8), classes=train.classes)
        fitted = fit(
            model, train, Trades(radius=0.15, beta=beta, steps=4), Recipe(epochs=8, learning_rate=5e-3), seed=0
        )
        robust[beta] = PGD(radius=0.15, steps=20)(model, held_out, seed=0).robust_accuracy
        assert fitted.history[-1].metrics["divergence"] > 0
    assert robust[6.0].low > robust[0.0].high + 0.1


def test_what_makes_no_sense_is_refused() -> None:
    for settings, message in (
        ((0.0, 6.0, 10), "'radius' parameter of Trades"),
        ((0.1, -1.0, 10), "'beta' parameter of Trades must be at least 0"),
        ((0.1, 6.0, 0), "'steps' parameter of Trades must be at least 1"),
    ):
        radius, beta, steps = settings
        with pytest.raises(InputError, match=message):
            Trades(radius=radius, beta=beta, steps=steps)
