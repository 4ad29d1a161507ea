"""What the tests of the verbs share: the command in this process, and small models that have learned something."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cli.running import Ran, Run
from modelkeep import Model, Preprocessing
from modelkeep.cli import main
from modelkeep.training import Adam, Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import dense, small_cnn


@pytest.fixture
def modelkeep(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs `modelkeep …` as its entry point does, in an empty folder, but without a new process for each."""

    def run(*arguments: str | Path) -> Ran:
        monkeypatch.setattr("sys.argv", ["modelkeep", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.chdir(tmp_path)
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as left:
            code = int(left.code or 0)
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def digits_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CNN that tells digits, as a file."""
    train = datasets.load("digits")
    torch.manual_seed(0)
    model = Model(
        small_cnn((1, 8, 8), 10),
        input_shape=(1, 8, 8),
        classes=train.classes,
        architecture="modelkeep.architectures:small_cnn",
        arguments={"input_shape": [1, 8, 8], "classes": 10},
    )
    fit(model, train, cross_entropy, Recipe(epochs=4, optimizer=Adam(), learning_rate=3e-3), seed=0)
    return model.save(tmp_path_factory.mktemp("models") / "digits.safetensors")


@pytest.fixture(scope="session")
def cancer_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dense network on the breast cancer table, trained for so short a time that it is biased."""
    train = datasets.load("breast-cancer")
    torch.manual_seed(0)
    model = Model(
        dense([30], 2),
        input_shape=(30,),
        classes=train.classes,
        preprocessing=Preprocessing(tuple(train.x.mean(dim=0).tolist()), tuple(train.x.std(dim=0).tolist())),
        bounds=None,
        architecture="modelkeep.architectures:dense",
        arguments={"input_shape": [30], "classes": 2},
    )
    fit(model, train, cross_entropy, Recipe(epochs=2, learning_rate=3e-3), seed=0)
    return model.save(tmp_path_factory.mktemp("models") / "cancer.safetensors")
