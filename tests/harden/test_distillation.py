"""Defensive distillation: soft labels by hand, the right ones for each example, and gradients that are only hidden."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy as torch_cross_entropy

from modelkeep import Data, Model
from modelkeep.attack import PGD
from modelkeep.core.errors import InputError
from modelkeep.harden import distil, score
from modelkeep.harden.distillation import AtTemperature
from modelkeep.training import Recipe, Step, cross_entropy, fit

Make = Callable[[], Model]


def a_step(index: torch.Tensor) -> Step:
    return Step(0, 10, 10, index)


def test_the_student_learns_the_teachers_answers_at_the_temperature(linear: Model) -> None:
    x = torch.randn(7, 6, generator=torch.Generator().manual_seed(1))
    data = Data(x, torch.arange(7) % 2, linear.classes)
    student = Model(nn.Linear(6, 2).double(), input_shape=(6,), classes=2, bounds=None)
    objective = distil(linear, data, temperature=4.0, batch_size=3)
    index = torch.tensor([5, 0, 2])
    # Equation 5.5 by hand, on both sides.
    soft = torch.exp(linear.logits(x[index]) / 4)
    soft = soft / soft.sum(dim=1, keepdim=True)
    answer = student.logits(x[index]) / 4
    expected = -(soft * (answer - answer.exp().sum(dim=1, keepdim=True).log())).sum(dim=1).mean()
    found = objective(student, x[index].double(), data.y[index], a_step(index))
    torch.testing.assert_close(found.detach(), expected)
    # Where the student answers as the teacher does, there is nothing left to learn.
    loss = objective(linear, x[index].double(), data.y[index], a_step(index))
    (gradient,) = torch.autograd.grad(loss, linear.module.get_parameter("weight"))
    assert float(gradient.abs().max()) < 1e-12


def test_the_teacher_learns_the_labels_at_the_temperature(linear: Model) -> None:
    x, y = torch.randn(5, 6, dtype=torch.float64), torch.arange(5) % 2
    found = AtTemperature(10.0)(linear, x, y, a_step(torch.arange(5)))
    assert found.item() == pytest.approx(torch_cross_entropy(linear.logits(x) / 10, y).item())


def test_the_answers_follow_the_examples_through_the_shuffling(fresh: Make, digits: tuple[Data, Data]) -> None:
    data = digits[0].first(60)
    teacher = fresh()
    objective = distil(teacher, data)
    seen = 0

    def watching(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        nonlocal seen
        torch.testing.assert_close(objective.answers[step.index], (teacher.logits(x) / 20).softmax(dim=1))
        seen += len(x)
        return objective(model, x, y, step)

    fit(fresh(), data, watching, Recipe(epochs=1, batch_size=25), seed=0)
    assert seen == 60


def test_it_hides_the_gradient_and_does_not_hold(digits: tuple[Data, Data]) -> None:
    train, held_out = digits
    recipe = Recipe(epochs=25, batch_size=64, learning_rate=1e-2)

    def network() -> Model:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        return Model(module, input_shape=(1, 8, 8), classes=train.classes)

    plain, teacher, student = network(), network(), network()
    fit(plain, train, cross_entropy, recipe, seed=0)
    fit(teacher, train, AtTemperature(50.0), recipe, seed=0)
    fit(student, train, distil(teacher, train, temperature=50.0), recipe, seed=0)

    # An attack on the probabilities, as in 2016: the gradient has vanished for most, so a step along it goes nowhere.
    x = held_out.x.clone().requires_grad_()
    probabilities = student.forward(x).softmax(dim=1)
    loss = -probabilities.gather(1, held_out.y[:, None]).log().sum()
    (gradient,) = torch.autograd.grad(loss, x)
    assert float((gradient == 0).flatten(1).all(dim=1).double().mean()) > 0.5
    naive = student.predict((held_out.x + 0.25 * gradient.sign()).clamp(0, 1))
    assert float((naive == held_out.y).double().mean()) > 0.5

    scored = score(plain, student, held_out, attack=PGD(radius=0.25), seed=0)
    assert scored.clean.value > 0.85
    assert scored.adaptive.value < 0.05
    assert scored.verdict == "does not hold"


def test_the_answers_to_other_data_are_refused(fresh: Make, digits: tuple[Data, Data]) -> None:
    objective = distil(fresh(), digits[0].first(60))
    other = digits[0].take(torch.arange(60).flip(0))  # as many, so that every index is a right one
    with pytest.raises(InputError, match="answers to other data than 'digits'"):
        fit(fresh(), other, objective, Recipe(epochs=1), seed=0)


def test_a_temperature_must_be_above_zero(linear: Model, digits: tuple[Data, Data]) -> None:
    with pytest.raises(InputError, match="'temperature' parameter of AtTemperature must be a number above 0"):
        AtTemperature(0.0)
    with pytest.raises(InputError, match="'temperature' parameter of distil"):
        distil(linear, digits[0], temperature=-1)
    with pytest.raises(InputError, match="takes inputs of shape"):
        distil(linear, digits[0])
