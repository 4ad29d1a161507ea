"""Outlier exposure: its loss by hand, runs that resume bit for bit, and a network that is unsure about noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.errors import CheckpointError, InputError
from modelkeep.guard.outliers import OutlierExposure
from modelkeep.training import Recipe, Step, cross_entropy, fit
from modelkeep.zoo.architectures import small_cnn
from modelkeep.zoo.datasets import load


def noise(count: int, seed: int) -> Data:
    x = torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(seed))
    return Data(x, torch.zeros(count, dtype=torch.int64), ("noise",), "noise")


@pytest.fixture
def fresh() -> Callable[[], Model]:
    """Makes the same small CNN for the digits each time."""

    def make() -> Model:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return Model(small_cnn((1, 8, 8), 10), input_shape=(1, 8, 8), classes=10)

    return make


def test_the_loss_is_equation_b3() -> None:
    model = Model(nn.Linear(2, 3).double(), input_shape=(2,), classes=3, bounds=None)
    x, y = torch.randn(5, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    outliers = Data(torch.tensor([[3.0, -1.0]]), torch.zeros(1, dtype=torch.int64), ("any",))
    exposed = OutlierExposure(outliers, weight=0.7)(model, x, y, Step(0, 10, 10))
    assert isinstance(exposed, tuple)
    clean = -model.probs(x).log()[torch.arange(5), y].mean()
    uniform = -(model.probs(outliers.x).log() / 3).sum()
    torch.testing.assert_close(exposed[0].detach(), clean + 0.7 * uniform)
    torch.testing.assert_close(exposed[1]["outlier loss"].detach(), uniform)


def test_outliers_become_flat_and_digits_stay(fresh: Callable[[], Model]) -> None:
    train, held_out = load("digits").sample(1000, seed=0).split(0.7, 0.3, seed=0)
    recipe = Recipe(epochs=12, batch_size=64, learning_rate=3e-3)
    plain, exposed = fresh(), fresh()
    fit(plain, train, cross_entropy, recipe, seed=0)
    fit(exposed, train, OutlierExposure(noise(500, seed=1)), recipe, seed=0)
    unseen = noise(200, seed=2).x
    assert float(plain.probs(unseen).amax(dim=1).mean()) > 0.5
    assert float(exposed.probs(unseen).amax(dim=1).mean()) < 0.25
    assert float((exposed.predict(held_out.x) == held_out.y).float().mean()) > 0.85


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(fresh: Callable[[], Model], tmp_path: Path) -> None:
    train = load("digits").first(200)
    recipe = Recipe(steps=12, batch_size=32)
    objective = OutlierExposure(noise(100, seed=1))
    whole = fresh()
    fit(whole, train, objective, recipe, seed=3)

    class Stop(Exception):
        pass

    def stopping(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> object:
        if step.number == 7:
            raise Stop
        return objective(model, x, y, step)

    stopping.name = objective.name  # type: ignore[attr-defined]
    parts, checkpoint = fresh(), tmp_path / "run"
    with pytest.raises(Stop):
        fit(parts, train, stopping, recipe, seed=3, checkpoint=checkpoint, checkpoint_seconds=0)  # type: ignore[arg-type]
    parts = fresh()
    fit(parts, train, objective, recipe, seed=3, checkpoint=checkpoint)
    assert parts.fingerprint() == whole.fingerprint()
    with pytest.raises(CheckpointError, match="another run"):
        fit(fresh(), train, OutlierExposure(noise(100, seed=2)), recipe, seed=3, checkpoint=checkpoint)


def test_what_cannot_be_outliers_is_refused(fresh: Callable[[], Model]) -> None:
    with pytest.raises(InputError, match="weight"):
        OutlierExposure(noise(3, seed=0), weight=-1.0)
    with pytest.raises(InputError, match="no examples"):
        OutlierExposure(noise(3, seed=0).first(0))
    other = Data(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64), ("any",), "other")
    with pytest.raises(InputError, match=r"'other' have shape \(3,\)"):
        fit(fresh(), load("digits").first(20), OutlierExposure(other), Recipe(steps=1), seed=0)
