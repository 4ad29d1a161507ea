"""`modelkeep extract`: a model file, one behind a defence, and what is written and refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cli.running import Run
from modelkeep import Model, Result
from modelkeep.attack.transfer.proxy import RECIPE
from modelkeep.core.access import Scores
from modelkeep.extract.extraction import Extract, Extraction
from modelkeep.extract.strategies import Knockoff
from modelkeep.zoo import datasets

FEW = ("--data", "digits", "--queries", "120", "--epochs", "20")


def test_it_writes_the_copy_the_figures_and_the_curve(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    run = modelkeep("extract", digits_model, *FEW, "--price", "2", "--json")
    assert run.code == 0, run.err
    out = tmp_path / "modelkeep-out"
    assert {path.name for path in out.iterdir()} == {
        *(
            "index.html",
            "extract.html",
            "extract.png",
            "result.json",
            "curve.json",
            "curve.png",
            "substitute.safetensors",
        )
    }
    found = Result.from_json(run.out)
    assert isinstance(found, Extraction)
    assert json.loads(run.out) == json.loads((out / "result.json").read_text())
    model, test = Model.load(digits_model), datasets.load("digits", "test")
    steal = Extract(datasets.load("digits"), Knockoff(120), recipe=RECIPE, clean=model)
    expected = steal(Scores(model), test, seed=0)
    assert found.fidelity == expected.fidelity
    assert found.cost == pytest.approx(0.24)
    assert Model.load(out / "substitute.safetensors").fingerprint() == expected.substitute.fingerprint()
    curve = json.loads((out / "curve.json").read_text())
    assert curve["queries"] == [15, 30, 60, 120]
    assert curve["fidelity"][-1] == found.fidelity.value
    assert np.asarray(Image.open(out / "curve.png")).std() > 1


def test_a_guarded_model_is_shown_on_one_screen(modelkeep: Run, digits_model: Path) -> None:
    run = modelkeep("extract", digits_model, *FEW, "--defence", "modelguard-s", "--attack", "pbayes", "--no-curve")
    assert run.code == 0, run.err
    assert "table drawn around the clean" in run.out
    assert "With 120 queries the copy answers" in run.out
    assert len(run.out.splitlines()) < 30


def test_what_cannot_be_done_is_said(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    assert "There is no extraction 'guess'." in modelkeep(
        "extract", digits_model, *FEW, "--attack", "guess"
    ).err.replace("\n", " ")
    assert "Name the target" in modelkeep("extract", digits_model).err
    mine = tmp_path / "mine.npz"
    np.savez(mine, x=np.zeros((4, 1, 8, 8), np.float32), y=np.arange(4))
    assert "--queries-from" in modelkeep("extract", digits_model, "--data", mine).err
    key = tmp_path / "key"
    key.write_text("secret")
    key.chmod(0o644)
    refused = modelkeep("extract", "http://127.0.0.1:9/v2/models/m", "--data", "digits", "--key-file", key)
    assert "can be read by others" in refused.err


def test_the_list_names_everything(modelkeep: Run) -> None:
    run = modelkeep("extract", "--list")
    assert run.code == 0
    for name in ("knockoff", "jbda-tr", "d-dae-plus", "partial-bayes", "modelguard-w", "mad"):
        assert name in run.out
