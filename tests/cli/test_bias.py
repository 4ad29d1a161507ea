"""`modelkeep bias`: the files, the figures in them, and the mitigated model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cli.running import Run
from modelkeep import Model, Result
from modelkeep.bias import ExpertMitigation, MeasureAmplification
from modelkeep.report import Bias
from modelkeep.zoo import datasets


def found_in(folder: Path) -> Bias:
    found = Result.from_json((folder / "bias.json").read_text())
    assert isinstance(found, Bias)
    return found


def test_it_writes_a_page_pictures_and_figures(modelkeep: Run, cancer_model: Path, tmp_path: Path) -> None:
    run = modelkeep("bias", cancer_model, "--data", "breast-cancer", "--json")
    assert run.code == 0, run.err
    out = tmp_path / "modelkeep-out"
    assert {path.name for path in out.iterdir()} == {
        *("index.html", "bias.html", "bias.json", "bias.png", "bias-features.png")
    }
    assert json.loads(run.out) == json.loads((out / "bias.json").read_text())
    assert all(np.asarray(Image.open(path)).std() > 1 for path in out.glob("*.png")), "a picture is empty"
    found = found_in(out)
    # By hand, on the test part: the share of predictions minus the share of labels.
    test, model = datasets.load("breast-cancer", "test"), Model.load(cancer_model)
    excess = (model.predict(test.x) == 1).double().mean() - (test.y == 1).double().mean()
    assert found.before.majority == "benign"
    assert found.before.amplification.value == pytest.approx(float(excess))
    assert found.before.explanation is not None
    parts = found.before.explanation.unavoidable.value + found.before.explanation.avoidable.value
    assert parts == pytest.approx(float(excess))
    page = (out / "bias.html").read_text()
    assert "avoidable" in page
    assert "Before and after" not in page


def test_the_mitigated_model_is_saved_and_measured(modelkeep: Run, cancer_model: Path, tmp_path: Path) -> None:
    run = modelkeep("bias", cancer_model, "--data", "breast-cancer", "--mitigate", "experts", "--save",
                    "better.safetensors")  # fmt: skip
    assert run.code == 0, run.err
    assert str(tmp_path / "better.safetensors") in run.out
    assert "Before and after" in (tmp_path / "modelkeep-out" / "bias.html").read_text()
    found = found_in(tmp_path / "modelkeep-out")
    test, saved = datasets.load("breast-cancer", "test"), Model.load(tmp_path / "better.safetensors")
    assert found.after is not None
    assert found.mitigated is not None
    assert MeasureAmplification()(saved, test, seed=0).amplification == found.after.amplification
    # Its features are chosen on the training part, not on the data that it is measured on.
    expected = ExpertMitigation()(Model.load(cancer_model), datasets.load("breast-cancer"), seed=0)
    assert found.mitigated.after == expected.after
    assert saved.fingerprint() == expected.model.fingerprint()
    assert Model.load(cancer_model).fingerprint() != saved.fingerprint()


def test_training_data_of_ones_own(modelkeep: Run, cancer_model: Path, tmp_path: Path) -> None:
    train, test = datasets.load("breast-cancer"), datasets.load("breast-cancer", "test")
    for name, data in (("train", train), ("test", test)):
        np.savez(tmp_path / name, x=data.x.numpy(), y=data.y.numpy(), classes=np.array(data.classes))
    command = ["bias", cancer_model, "--data", "test.npz", "--mitigate", "parity"]
    run = modelkeep(*command)
    assert run.code in (2, 4)
    assert "name it with --train" in run.err
    assert modelkeep(*command, "--train", "train.npz").code == 0
    own = found_in(tmp_path / "modelkeep-out")
    assert (tmp_path / "modelkeep-out" / "mitigated.safetensors").exists()
    assert modelkeep("bias", cancer_model, "--data", "breast-cancer", "--mitigate", "parity").code == 0
    built_in = found_in(tmp_path / "modelkeep-out")
    assert own.after is not None
    assert built_in.after is not None
    assert own.after.amplification == built_in.after.amplification


def test_more_than_two_classes(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    run = modelkeep("bias", digits_model, "--data", "digits", "--mitigate", "l1", "--slice", "linear1_relu")
    assert run.code == 0, run.err
    found = found_in(tmp_path / "modelkeep-out")
    assert found.before.explanation is None
    assert len(found.before.per_class) == 10
    assert sum(estimate.value for estimate in found.before.per_class) == pytest.approx(0, abs=1e-9)
    assert found.features.slice == "linear1_relu"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--save", "x.safetensors"], "belong to --mitigate"),
        (["--train", "digits"], "belong to --mitigate"),
        (["--mitigate", "l1", "--save", "x.pt"], "saved as a '.safetensors' file"),
        (["--mitigate", "experts"], "defined for two classes"),
        (["--slice", "linear1_rely"], "Did you mean 'linear1_relu'"),
        (["--out", "file"], "--out must be a folder"),
    ],
)
def test_mistakes_are_one_sentence(modelkeep: Run, digits_model: Path, tmp_path: Path, arguments: list[str],
                                   message: str) -> None:  # fmt: skip
    (tmp_path / "file").touch()
    run = modelkeep("bias", digits_model, "--data", "digits", *arguments)
    assert run.code in (2, 4)
    assert message in run.err
    assert run.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_help_teaches(modelkeep: Run) -> None:
    run = modelkeep("bias", "--help")
    assert run.code == 0
    for word in ("--mitigate", "--train", "--save", "experts", "unavoidable"):
        assert word in run.out
