"""`modelkeep harden`: the hardened model, its figures, and which of several defences hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

from cli.running import Run
from modelkeep import Model, Result
from modelkeep.attack import PGD
from modelkeep.harden import Hardened, Scoreboard
from modelkeep.zoo import datasets

QUICK = ("--radius", "0.15", "--epochs", "4", "--learning-rate", "0.003", "--attack", "pgd", "--examples", "200")


def test_the_hardened_model_is_saved_and_measured(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    run = modelkeep("harden", digits_model, "--data", "digits", "--method", "fast", *QUICK, "--json")
    assert run.code == 0, run.err
    out = tmp_path / "modelkeep-out"
    assert {path.name for path in out.iterdir()} == {
        *("index.html", "harden.html", "harden.json", "harden.png", "harden-training.png", "hardened.safetensors")
    }
    assert all(np.asarray(Image.open(path)).std() > 1 for path in out.glob("*.png")), "a picture is empty"
    found = Result.from_json(run.out)
    assert isinstance(found, Hardened)
    test = datasets.load("digits", "test").sample(200, seed=0)
    for path, attacked in ((digits_model, found.attacked_before), (out / "hardened.safetensors", found.attacked_after)):
        assert PGD(radius=0.15)(Model.load(path), test, seed=0).robust_accuracy == attacked
    assert found.attacked_after.low > found.attacked_before.high


def test_which_of_several_defences_hold(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    chosen = ("--compare", "--defence", "pgd", "--defence", "foveation")
    run = modelkeep("harden", digits_model, "--data", "digits", *QUICK, *chosen)
    assert run.code == 0, run.err
    out = tmp_path / "modelkeep-out"
    assert {path.name for path in out.iterdir()} == {"index.html", "harden.html", "harden.json", "harden.png"}
    found = Result.from_json((out / "harden.json").read_text())
    assert isinstance(found, Scoreboard)
    assert list(found.scores) == ["pgd", "foveation"]
    assert found.scores["foveation"].verdict == "does not hold"
    assert found.scores["pgd"].adaptive.low > found.attacked.high
    assert json.loads((out / "harden.json").read_text())["kind"] == "scoreboard"


def test_what_cannot_be_done_is_said(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    test = datasets.load("digits", "test")
    np.savez(tmp_path / "own", x=test.x.numpy(), y=test.y.numpy(), classes=np.array(test.classes))
    for options, says in (
        (("--data", "own.npz"), "Hardening needs the training data: name it with --train."),
        (("--data", "digits", "--compare", "--defence", "magic"), "There is no defence 'magic'"),
        (("--data", "digits", "--defence", "jpeg"), "--defence belongs to --compare"),
        (("--data", "digits", "--save", "model.bin"), "saved as a '.safetensors' file"),
    ):
        run = modelkeep("harden", digits_model, "--radius", "0.1", *options)
        assert run.code in (2, 4)
        assert says in " ".join(run.err.split())
