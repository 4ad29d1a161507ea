"""`modelkeep complete` on a small model: figures, a page and JSON; a second run finds all in the ledger."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
import torch

from cli.running import Run
from modelkeep import Model
from modelkeep.completion.hardness import Hardness
from modelkeep.completion.trials import complete as trial
from modelkeep.completion.trials import fingerprints, open_owned, read_retraining
from modelkeep.core.errors import InputError
from modelkeep.core.results import Result
from modelkeep.study import working_in
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import dense

SHORT = ("--data", "digits", "--steps", "24", "--every", "4", "--learning-rate", "0.005", "--examples", "200")


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dense network that tells digits, as a file."""
    train = datasets.load("digits")
    torch.manual_seed(0)
    arguments = {"input_shape": [1, 8, 8], "classes": 10}
    architecture = "modelkeep.architectures:dense"
    shape, network = (1, 8, 8), dense((1, 8, 8), 10)
    model = Model(network, input_shape=shape, classes=train.classes, architecture=architecture, arguments=arguments)
    fit(model, train, cross_entropy, Recipe(epochs=3, learning_rate=5e-3), seed=0)
    return model.save(tmp_path_factory.mktemp("models") / "dense.safetensors")


def _owned(model: Path) -> dict[str, object]:
    named = {"model": str(model), "weights": None, "input_shape": None, "device": "cpu", "label": "label"}
    return {**named, "train": "digits", "test": "digits", "examples": 200, "seed": 0}


def test_it_tells_shows_and_keeps_what_it_found(modelkeep: Run, small_model: Path, tmp_path: Path) -> None:
    command = (
        "complete",
        small_model,
        *SHORT,
        "--part",
        "logits",
        "--part",
        "30%",
        "--procedure",
        "T1",
        "--seeds",
        "2",
    )
    told = modelkeep(*command, "--price", "2.5", "--currency", "$")
    assert told.code == 0, told.err
    assert "The hardest part to get back is 'logits'" in told.out.replace("\n", " ")
    out = tmp_path / "modelkeep-out"
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "$\u00a0" in (out / "report.html").read_text()
    found = Result.from_json((out / "result.json").read_text())
    assert isinstance(found, Hardness)
    assert found.parts == ("logits", "30% of all")
    assert found.cell("logits", "T1", 1.0).runs == 2
    assert found.bound("30% of all", 0.5).hardness.value < 1
    assert found.provenance.model == Model.load(small_model).fingerprint()
    # Again, for another share: all trainings are in the ledger, and only the measure is made anew.
    again = modelkeep(*command, "--alpha", "0.7", "--json")
    assert json.loads(again.out)["cells"][0]["alpha"] == 0.7
    with sqlite3.connect(out / "ledger.sqlite3") as ledger:
        assert ledger.execute("SELECT count(*) FROM trials").fetchone() == (4,)
        assert ledger.execute("SELECT state, error FROM attempts").fetchall() == [("done", None)] * 4


def test_a_trial_measures_what_a_part_and_a_procedure_cost(small_model: Path, tmp_path: Path) -> None:
    recipe = Recipe(steps=24, evaluate_every=4, batch_size=64, learning_rate=5e-3)
    setting = {"owned": _owned(small_model), "recipe": recipe.to_json()}
    part = {"name": "logits", "layers": ["logits"], "without": [], "share": 1.0}
    with working_in(tmp_path / "first"):
        value = trial(part=part, procedure="T1", setting=setting, seed=3)
    found = read_retraining(value, "logits", "T1", 3)
    assert found.original.steps == found.retrained.steps == (0, 4, 8, 12, 16, 20, 24)
    assert found.original.losses[0] > 0.7
    assert found.retrained.best < found.original.losses[0]
    assert found.seconds_per_step is not None
    # The original training is made once: another procedure takes it over.
    with working_in(tmp_path / "second"):
        other = trial(part=part, procedure="T2", setting=setting, seed=3)
    assert other["original"] == value["original"]
    assert other["retrained"]["losses"] != value["retrained"]["losses"]
    with working_in(tmp_path / "third"):
        half = {"name": "half", "layers": [""], "without": [], "share": 0.5}
        refused = trial(part=half, procedure="T3 linear 4x", setting=setting, seed=3)
    assert "nothing to over-parametrise" in refused["refused"]


def test_a_model_that_changed_is_another_model(small_model: Path) -> None:
    owned = _owned(small_model)
    right = fingerprints(*open_owned(owned))
    assert open_owned({**owned, "fingerprints": right})[0].fingerprint() == right[0]
    with pytest.raises(InputError, match="changed since the study began"):
        open_owned({**owned, "fingerprints": ["another", *right[1:]]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--part", "conv9"), "The network has no layer 'conv9'"),
        (("--part", "many%"), "such as --part 30%"),
        (("--part", "logits without linear1"), "leaves out 'linear1'"),
        (("--procedure", "T99"), "There is no procedure 't99'. There are: "),
        (("--steps", "3"), "never measured"),
    ],
    ids=["unknown part", "no share", "not within", "unknown procedure", "too short"],
)
def test_errors_say_what_to_do(modelkeep: Run, small_model: Path, options: tuple[str, ...], message: str) -> None:
    refused = modelkeep("complete", small_model, "--data", "digits", *options)
    assert refused.code == 2
    assert message in refused.err.replace("\n", " ")


def test_own_test_data_need_own_training_data(modelkeep: Run, small_model: Path, tmp_path: Path) -> None:
    (tmp_path / "test.npz").touch()
    refused = modelkeep("complete", small_model, "--data", tmp_path / "test.npz")
    assert refused.code == 2
    assert "name it with --train" in refused.err


def test_a_weak_model_is_completed_to_its_own_loss(modelkeep: Run, small_model: Path, tmp_path: Path) -> None:
    """A fresh run gets much further than this model; to be as good as it is counts, and the headline says so."""
    weak = Model.load(small_model)
    with torch.no_grad():  # classes 7 to 9 are never answered
        dict(weak.module.named_parameters())["logits.bias"][7:] -= 100
    path = weak.save(tmp_path / "weak.safetensors")
    command = ("complete", path, *SHORT, "--part", "logits", "--procedure", "T1", "--seeds", "1", "--alpha", "1")
    told = modelkeep(*command, "--steps", "80")
    assert told.code == 0, told.err
    assert "and trainings from scratch get to" in " ".join(told.out.split())
    found = Result.from_json((tmp_path / "modelkeep-out" / "result.json").read_text())
    assert isinstance(found, Hardness)
    assert found.own_loss is not None
    assert 0.2 < found.own_loss.value < 0.4
    assert found.original_best[0] < found.own_loss.low
    assert found.cells[0].censored == 0
    # With the curve of its own training no other is trained; a curve that cannot be its own is refused.
    curve, other = tmp_path / "curve.json", tmp_path / "other.json"
    curve.write_text(json.dumps({"steps": [0, 40, 400], "losses": [0.9, 0.5, found.own_loss.value]}))
    other.write_text(json.dumps({"steps": [0, 40, 400], "losses": [0.9, 0.1, 0.01]}))
    told = modelkeep(*command, "--steps", "80", "--training-curve", curve, "--json")
    assert json.loads(told.out)["original_best"] == [found.own_loss.value]
    assert json.loads(told.out)["cells"][0]["original_cost"] == 400
    refused = modelkeep(*command, "--training-curve", other)
    assert (refused.code, "it is the curve of another model" in refused.err.replace("\n", " ")) == (2, True)


def test_a_model_that_learned_nothing_is_refused_before_any_training(modelkeep: Run, tmp_path: Path) -> None:
    torch.manual_seed(0)
    arguments = {"input_shape": [1, 8, 8], "classes": 10}
    untrained = Model(
        dense((1, 8, 8), 10),
        input_shape=(1, 8, 8),
        classes=10,
        architecture="modelkeep.architectures:dense",
        arguments=arguments,
    ).save(tmp_path / "untrained.safetensors")
    refused = modelkeep("complete", untrained, *SHORT)
    assert refused.code == 2
    assert "there is nothing to complete" in refused.err.replace("\n", " ")
    assert not (tmp_path / "modelkeep-out" / "ledger.sqlite3").exists()
