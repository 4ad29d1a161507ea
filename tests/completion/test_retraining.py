"""The curve of a training: the error rates of a hand-written loop, the same after Ctrl-C, and 1 where it diverged."""

from __future__ import annotations

import signal
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy as cross_entropy_of

from digits import held_out_digits, training_digits
from modelkeep import Data, Model
from modelkeep.completion.curve import Curve
from modelkeep.completion.retraining import train_and_measure, train_from_scratch
from modelkeep.core.errors import CheckpointError, InputError
from modelkeep.training import SGD, Recipe, Step, cross_entropy

RECIPE = Recipe(steps=30, batch_size=400, evaluate_every=5, optimizer=SGD(momentum=0.9), learning_rate=0.2)


@pytest.fixture(scope="module")
def data() -> Data:
    return training_digits().first(400)


@pytest.fixture(scope="module")
def held_out() -> Data:
    return held_out_digits().first(200)


def fresh() -> Model:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 10))
    return Model(module, input_shape=(1, 8, 8), classes=10)


def error_rate(module: nn.Module, data: Data) -> float:
    module.eval()
    with torch.no_grad():
        return float((module(data.x).argmax(1) != data.y).double().mean())


def test_a_curve_is_that_of_a_loop_written_by_hand(data: Data, held_out: Data) -> None:
    model = fresh()
    module = deepcopy(model.module)
    curve = train_and_measure(model, data, held_out, RECIPE, seed=0)
    losses = [error_rate(module, held_out)]
    optimizer = torch.optim.SGD(module.parameters(), lr=0.2, momentum=0.9)
    for step in range(1, 31):  # all of the data are one batch, so that their order does not matter
        module.train()
        optimizer.zero_grad()
        torch.autograd.backward(cross_entropy_of(module(data.x), data.y))
        optimizer.step()
        if step % 5 == 0:
            losses.append(error_rate(module, held_out))
    assert curve.steps == (0, 5, 10, 15, 20, 25, 30)
    assert curve.losses == pytest.approx(losses, abs=0.011)  # sums in another order may turn two of 200 answers
    assert losses[-1] < 0.3 < losses[0]
    assert error_rate(model.module, held_out) == pytest.approx(curve.losses[-1])


@dataclass
class Interrupted:
    """Cross-entropy with somebody who presses Ctrl-C at a step, once."""

    at: int
    name = "interrupted"

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        if step.number == self.at:
            self.at = -1
            signal.raise_signal(signal.SIGINT)
        return cross_entropy(model, x, y, step)


def test_an_interrupted_training_goes_on_to_the_same_curve(data: Data, held_out: Data, tmp_path: Path) -> None:
    path, recipe = tmp_path / "run", replace(RECIPE, batch_size=50)
    whole = fresh()
    wanted = train_and_measure(whole, data, held_out, recipe, objective=Interrupted(-1), seed=1)
    objective = Interrupted(17)
    stopped = fresh()
    with pytest.raises(KeyboardInterrupt):
        train_and_measure(stopped, data, held_out, recipe, objective=objective, seed=1, checkpoint=path)
    # The weights that were reached have lost the loss of step 0.
    with pytest.raises(CheckpointError, match="as it was at the start"):
        train_and_measure(stopped, data, held_out, recipe, objective=objective, seed=1, checkpoint=path)
    again = fresh()
    assert train_and_measure(again, data, held_out, recipe, objective=objective, seed=1, checkpoint=path) == wanted
    assert again.fingerprint() == whole.fingerprint()
    # A run that has ended gives its curve at once.
    assert train_and_measure(fresh(), data, held_out, recipe, objective=objective, seed=1, checkpoint=path) == wanted


def test_a_training_that_diverges_gives_no_right_answers(data: Data, held_out: Data) -> None:
    def exploding(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        return cross_entropy(model, x, y, step) * (float("nan") if step.number == 12 else 1.0)

    recipe = replace(RECIPE, steps=28)
    good = train_and_measure(fresh(), data, held_out, recipe, seed=0)
    curve = train_and_measure(fresh(), data, held_out, recipe, objective=exploding, seed=0)
    assert curve == Curve(good.steps, (*good.losses[:3], 1.0, 1.0, 1.0, 1.0))
    assert good.steps == (0, 5, 10, 15, 20, 25, 28)


@pytest.mark.parametrize("recipe", [Recipe(epochs=1, evaluate_every=5), Recipe(steps=5)], ids=["epochs", "no grid"])
def test_a_curve_needs_steps_and_a_grid(recipe: Recipe, data: Data, held_out: Data) -> None:
    with pytest.raises(InputError, match=r"steps=… and evaluate_every=…"):
        train_and_measure(fresh(), data, held_out, recipe, seed=0)


def test_the_original_training_begins_anew(data: Data, held_out: Data) -> None:
    model = fresh()
    before = model.fingerprint()
    first, again = (train_from_scratch(model, data, held_out, RECIPE, seed=4) for _ in range(2))
    assert model.fingerprint() == before
    assert first.curve == again.curve
    assert first.model.fingerprint() == again.model.fingerprint() != before
    # From the trained model it is the same training: nothing of the weights that are given is used.
    assert train_from_scratch(first.model, data, held_out, RECIPE, seed=4).curve == first.curve
    assert train_from_scratch(model, data, held_out, RECIPE, seed=5).curve != first.curve
