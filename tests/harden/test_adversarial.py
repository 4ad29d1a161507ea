"""Adversarial training: closed forms on logistic regression, free training by hand, and nothing touched on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy as torch_cross_entropy
from torch.nn.functional import softplus

from modelkeep import Data, Model
from modelkeep.attack import PGD
from modelkeep.core.errors import InputError
from modelkeep.core.norms import Ball, Norm
from modelkeep.harden import FastTraining, FGSMTraining, FreeTraining, PGDTraining, Trades
from modelkeep.harden.adversarial import Adversarial
from modelkeep.training import SGD, Linear, Objective, Recipe, Step, cross_entropy, fit
from modelkeep.training.batches import Batches

Make = Callable[[], Model]
DUAL: dict[str, float] = {"linf": 1, "l2": 2, "l1": float("inf")}


def a_step(number: int = 0, total: int = 10) -> Step:
    return Step(number, total, total, generator=torch.Generator().manual_seed(5))


def bits(model: Model) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in model.module.state_dict().items()}


def batch(n: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)), torch.arange(n) % 2


def worst_logistic_loss(model: Model, x: torch.Tensor, y: torch.Tensor, norm: str, radius: float) -> torch.Tensor:
    """log(1 + exp -(margin - radius · ‖w‖ in the dual norm)), with w the difference of the two classes' weights."""
    weight, bias = model.module.parameters()
    sign = (2 * y - 1).double()
    margin = sign * (x @ (weight[1] - weight[0]) + bias[1] - bias[0])
    return softplus(-(margin - radius * torch.linalg.vector_norm(weight[1] - weight[0], DUAL[norm]))).mean()


@dataclass(frozen=True, kw_only=True)
class Long(Adversarial):
    """More steps than any of the methods, which end at the worst input."""

    @property
    def ascent(self) -> tuple[int, float]:
        return 60, 0.5


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_on_logistic_regression_the_margin_is_smaller_by_the_dual_norm(linear: Model, norm: Norm) -> None:
    x, y = batch()
    found = Long(radius=0.3, norm=norm)(linear, x, y, a_step())
    expected = worst_logistic_loss(linear, x, y, norm, 0.3)
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    usual = PGDTraining(radius=0.3, norm=norm, steps=10)(linear, x, y, a_step()).item()
    clean = cross_entropy(linear, x, y, a_step()).item()
    assert clean + 0.95 * (expected.item() - clean) < usual <= expected.item() + 1e-12
    # And so are the gradients of the weights, wherever the worst input does not jump.
    weight = linear.module.get_parameter("weight")
    ours, theirs = (torch.autograd.grad(loss, weight) for loss in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_one_step_is_enough_where_the_loss_is_linear(linear: Model, norm: Norm) -> None:
    x, y = batch()
    found = FGSMTraining(radius=0.3, norm=norm)(linear, x, y, a_step())
    assert found.item() == pytest.approx(worst_logistic_loss(linear, x, y, norm, 0.3).item(), rel=1e-12)


def test_fast_goes_one_and_a_quarter_radii_from_a_random_start(linear: Model) -> None:
    x, y = batch()
    found = FastTraining(radius=0.3).attack_batch(linear, x, y, a_step())
    start = Ball("linf", 0.3).random_point(x, torch.Generator().manual_seed(5))
    loss = torch_cross_entropy(linear.forward(moved := start.clone().requires_grad_()), y)
    (gradient,) = torch.autograd.grad(loss, moved)
    expected = torch.clamp(start + 1.25 * 0.3 * gradient.sign(), x - 0.3, x + 0.3)
    torch.testing.assert_close(found, expected)
    assert not torch.equal(expected, FGSMTraining(radius=0.3).attack_batch(linear, x, y, a_step()))


def test_a_sure_network_is_attacked_all_the_same(linear: Model) -> None:
    module = linear.module.float()
    sure = Model(module, input_shape=(6,), classes=2, bounds=None)
    with torch.no_grad():
        module.get_parameter("weight").mul_(100)
    x, _ = batch()
    x = x.float()
    y = sure.predict(x)
    assert float(sure.probs(x).amax(dim=1).median()) == 1  # in single precision there is no gradient left
    moved = FGSMTraining(radius=0.01).attack_batch(sure, x, y, a_step())
    difference = module.get_parameter("weight")[1] - module.get_parameter("weight")[0]
    expected = x - 0.01 * (2 * y[:, None] - 1) * difference.sign()
    torch.testing.assert_close(moved, expected)


def test_the_attack_keeps_to_the_bounds_and_to_a_scheduled_radius(fresh: Make) -> None:
    model, x, y = fresh(), torch.rand(8, 1, 8, 8).round(), torch.arange(8)
    objective = PGDTraining(radius=Linear(0.0, 0.2))
    assert torch.equal(objective.attack_batch(model, x, y, a_step(0)), x)
    for number, radius in ((5, 0.1), (10, 0.2)):
        moved = objective.attack_batch(model, x, y, a_step(number))
        assert float((moved - x).abs().max()) == pytest.approx(radius)
        assert 0 <= float(moved.min()) <= float(moved.max()) <= 1


@pytest.mark.parametrize("make", [PGDTraining, FGSMTraining, FastTraining])
def test_the_attack_leaves_everything_as_it_was(fresh: Make, make: type[Adversarial]) -> None:
    model, x, y = fresh(), torch.rand(8, 1, 8, 8), torch.arange(8)
    module = model.module.train()
    module.get_submodule("1").eval()  # a part that is not trained
    module.get_parameter("6.bias").requires_grad_(False)
    module.get_parameter("0.weight").grad = torch.ones(4, 1, 3, 3)
    modes, state = [part.training for part in module.modules()], bits(model)
    torch.manual_seed(9)
    expected = torch.rand(4)
    torch.manual_seed(9)
    moved = make(radius=0.1).attack_batch(model, x, y, a_step())
    assert torch.equal(torch.rand(4), expected)  # so dropout draws what it draws without the attack
    assert not moved.requires_grad
    assert [part.training for part in module.modules()] == modes
    assert bits(model) == state
    assert [p.requires_grad for p in module.parameters()] == [True] * 5 + [False]
    gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    assert list(gradients) == ["0.weight"]
    assert bool((gradients["0.weight"] == 1).all())


@pytest.mark.parametrize("objective", [PGDTraining(radius=0.1), Trades(radius=0.1)], ids=["pgd", "trades"])
def test_batch_norm_sees_only_what_is_trained_on(fresh: Make, objective: Objective) -> None:
    model, x, y = fresh(), torch.rand(8, 1, 8, 8), torch.arange(8)
    model.module.train()
    objective(model, x, y, a_step())
    passes = 2 if isinstance(objective, Trades) else 1  # TRADES trains on the examples and on the moved ones
    assert int(model.module.get_buffer("1.num_batches_tracked")) == passes


@pytest.mark.parametrize("replays", [1, 3])
def test_free_training_is_the_papers_algorithm(fresh: Make, digits: tuple[Data, Data], replays: int) -> None:
    data, radius, rate = digits[0].first(50), 0.1, 0.05
    recipe = Recipe(epochs=2, batch_size=20, optimizer=SGD(), learning_rate=rate, replays=replays)
    ours, theirs = (without_dropout(fresh()) for _ in range(2))
    fitted = fit(ours, data, FreeTraining(radius=radius), recipe, seed=4)

    module, order, delta, losses = theirs.module.train(), Batches(len(data), recipe, 4), torch.zeros(20, 1, 8, 8), []
    for number in range(2 * 3 * replays):
        index = order.index(number)
        moved = (data.x[index] + delta[: len(index)]).clamp(0, 1).requires_grad_()
        loss = torch_cross_entropy(module(moved), data.y[index])
        gradients = torch.autograd.grad(loss, [moved, *module.parameters()])
        with torch.no_grad():
            for parameter, gradient in zip(module.parameters(), gradients[1:], strict=True):
                parameter.sub_(rate * gradient)
        delta[: len(index)] = (delta[: len(index)] + radius * gradients[0].sign()).clamp(-radius, radius)
        losses.append(loss.item())
    assert fitted.history[0].train_loss == pytest.approx(sum(losses[: 3 * replays]) / (3 * replays), rel=1e-6)
    for one, other in zip(ours.module.parameters(), theirs.module.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def without_dropout(model: Model) -> Model:
    model.module.set_submodule("5", torch.nn.Identity())
    return model


def test_the_first_step_of_free_training_is_plain_and_the_second_is_fgsm(
    fresh: Make, digits: tuple[Data, Data]
) -> None:
    data = digits[0].first(20)
    free, plain = fresh(), fresh()
    objective = FreeTraining(radius=0.1)
    for _ in range(2):  # a second run does not start with what the first one kept
        model = fresh()
        fit(model, data, objective, Recipe(steps=1, batch_size=20, replays=2), seed=0)
        fit(plain := fresh(), data, cross_entropy, Recipe(steps=1, batch_size=20), seed=0)
        assert bits(model) == bits(plain)
    fit(free, data, objective, Recipe(steps=2, batch_size=20, replays=2), seed=0)
    kept = objective.state_dict()["perturbation"]
    assert kept.shape == (20, 1, 8, 8)
    assert float(kept.abs().max()) == pytest.approx(0.1)


class Stopped(Exception):
    pass


@dataclass(frozen=True, kw_only=True)
class Stopping(FreeTraining):
    """Free training that is stopped at some step, under the same name."""

    stop_at: int = -1

    def gradients(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        if step.number == self.stop_at:
            raise Stopped
        return super().gradients(model, x, y, step)


def test_free_training_resumes_bit_for_bit(fresh: Make, digits: tuple[Data, Data], tmp_path: Path) -> None:
    data, recipe = digits[0].first(50), Recipe(epochs=2, batch_size=20, replays=3)
    straight = fresh()
    expected = fit(straight, data, Stopping(radius=0.1), recipe, seed=0)
    for stop_at in (0, 1, 4, 11):
        path = tmp_path / f"{stop_at}.safetensors"
        with pytest.raises(Stopped):
            fit(
                fresh(),
                data,
                Stopping(radius=0.1, stop_at=stop_at),
                recipe,
                seed=0,
                checkpoint=path,
                checkpoint_seconds=0,
            )
        resumed = fresh()
        found = fit(resumed, data, Stopping(radius=0.1), recipe, seed=0, checkpoint=path)
        assert bits(resumed) == bits(straight)
        assert found.history == expected.history


@pytest.mark.parametrize(
    "objective",
    [PGDTraining(radius=0.1, norm="l2"), Trades(radius=0.1, steps=2), FastTraining(radius=Linear(0.0, 0.1))],
    ids=["pgd", "trades", "fast"],
)
def test_a_random_start_comes_from_the_seed_alone(fresh: Make, digits: tuple[Data, Data], objective: Objective) -> None:
    data, recipe = digits[0].first(40), Recipe(steps=4, batch_size=20)
    models = [fresh() for _ in range(2)]
    for number, model in enumerate(models):
        torch.manual_seed(number)
        fit(model, data, objective, recipe, seed=0)
    assert bits(models[0]) == bits(models[1])


def test_poisson_sampling_may_draw_nobody(fresh: Make, digits: tuple[Data, Data]) -> None:
    recipe = Recipe(steps=12, batch_size=1, sampling="poisson", optimizer=SGD())
    fitted = fit(without_batch_norm(fresh()), digits[0].first(20), FreeTraining(radius=0.1), recipe, seed=0)
    assert fitted.history[-1].train_loss > 0


def without_batch_norm(model: Model) -> Model:
    model.module.set_submodule("1", torch.nn.Identity())
    return model


def test_it_makes_a_network_of_digits_hold(digits: tuple[Data, Data]) -> None:
    train, held_out = digits
    robust = {}
    for name, objective, replays in (
        ("plain", cross_entropy, 1),
        ("pgd", PGDTraining(radius=0.15, steps=5), 1),
        ("fast", FastTraining(radius=0.15), 1),
        ("free", FreeTraining(radius=0.15), 4),
    ):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = torch.nn.Sequential(
                torch.nn.Conv2d(1, 16, 3, padding=1),
                torch.nn.ReLU(),
                torch.nn.MaxPool2d(2),
                torch.nn.Flatten(),
                torch.nn.Linear(256, 10),
            )
        model = Model(module, input_shape=(1, 8, 8), classes=train.classes)
        recipe = Recipe(epochs=12 // replays, batch_size=64, learning_rate=5e-3, replays=replays)
        fit(model, train, objective, recipe, seed=0)
        robust[name] = PGD(radius=0.15, steps=20)(model, held_out, seed=0).robust_accuracy
    for name in ("pgd", "fast", "free"):
        assert robust[name].low > robust["plain"].high + 0.1, (name, robust)


def test_what_makes_no_sense_is_refused() -> None:
    for make, message in (
        (lambda: PGDTraining(radius=0.0), "'radius' parameter of PGDTraining must be a number above 0 or a schedule"),
        (lambda: PGDTraining(radius=0.1, steps=0), "'steps' parameter of PGDTraining must be at least 1"),
        (lambda: FreeTraining(radius=-1.0), "'radius' parameter of FreeTraining"),
    ):
        with pytest.raises(InputError, match=message):
            make()
