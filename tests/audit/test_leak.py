"""Training rows among the test rows are found, exact or with a little noise, and other rows are not accused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.audit.leak import CheckLeak
from modelkeep.core.errors import InputError


def drawn(n: int, seed: int) -> Data:
    x = torch.rand(n, 1, 4, 4, generator=torch.Generator().manual_seed(seed))
    return Data(x, torch.arange(n) % 2, ("a", "b"), bounds=(0.0, 1.0))


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), input_shape=(1, 4, 4), classes=("a", "b"))


@pytest.mark.parametrize(
    ("copied", "noise", "found"),
    [(40, 0.0, "training-data-in-test"), (40, 0.01, "training-data-in-test"), (0, 0.0, "")],
)
def test_planted_rows_are_counted(model: Model, copied: int, noise: float, found: str) -> None:
    train, test = drawn(300, 0), drawn(200, 1)
    x = test.x.clone()
    x[:copied] = (train.x[:copied] + noise).clamp(0, 1)
    section = CheckLeak(train=train)(model, replace(test, x=x))
    (finding,) = section.findings
    assert finding.id == f"leak.{found or 'none-found'}"
    assert finding.value is not None
    assert finding.value.estimate.value == copied / 200
    exact = copied if noise == 0 else 0
    assert f"{exact} exactly, {copied - exact} nearly" in finding.measured
    assert len(section.pictures) == bool(copied)


def test_without_training_data_it_does_not_run(model: Model) -> None:
    assert "--train" in CheckLeak().obstacle(model, drawn(10, 0))
    with pytest.raises(InputError, match="needs the training data"):
        CheckLeak()(model, drawn(10, 0))
