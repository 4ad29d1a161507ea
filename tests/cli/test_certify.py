"""`modelkeep certify`: from a model to a certificate, and back through the verifier."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from cli.running import Run
from modelkeep import Result
from modelkeep.certify import Smoothed
from modelkeep.certify.schema import Certificate
from modelkeep.zoo import datasets

QUICK = ("--data", "digits", "--examples", "40")


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    return tmp_path / "settings"


def test_certified_handed_over_and_verified(modelkeep: Run, digits_model: Path, tmp_path: Path, settings: Path) -> None:
    run = modelkeep("certify", digits_model, *QUICK, "--radius", "0.01")
    assert run.code == 0, run.err
    key = settings / "modelkeep" / "signing-key.pem"
    assert str(key) in run.out.replace("\n", "")
    assert key.read_text().splitlines()[1] not in run.out + run.err
    out = tmp_path / "modelkeep-out"
    assert {path.name for path in out.iterdir()} == {
        *("certificate.json", "inputs.npz", "certify.html", "certify.json", "index.html")
    }
    made = Certificate.model_validate_json((out / "certificate.json").read_bytes())
    assert made.summary.examples == 40
    assert f"{made.summary.certified} of 40 inputs" in run.out
    # The command that it prints is the one that checks it.
    (command,) = re.findall(r"To check it: modelkeep (.*)", run.out)
    checked = modelkeep(*command.split())
    assert checked.code == 0, checked.out
    assert "VERIFIED" in checked.out.upper()
    assert "CONSISTENT" not in checked.out
    again = modelkeep("certify", digits_model, *QUICK, "--radius", "0.01", "--json")
    assert "A key was made" not in again.out
    assert json.loads(again.out)["public_key"] == made.public_key


def test_the_built_in_data_can_be_named_again(modelkeep: Run, digits_model: Path) -> None:
    run = modelkeep("certify", "--radius", "0.001", "--norm", "linf", "--guarantee", "top-3", digits_model, *QUICK)
    assert run.code == 0, run.err
    place = Path("modelkeep-out") / "certificate.json"
    checked = modelkeep("certify", "verify", place, "--weights", digits_model, "--data", "digits", "--json")
    assert checked.code == 3, checked.out  # nobody was named whose signature counts
    report = json.loads(checked.out)
    assert report["word"] == "consistent"
    assert [check["name"] for check in report["checks"] if check["status"] != "holds"] == ["signer"]


def test_affinity_with_classes_that_stand_alone(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    run = modelkeep("certify", digits_model, *QUICK, "--radius", "0.01", "--guarantee", "affinity:1+7,3+5+8", "--json")
    assert run.code == 0, run.err
    groups = json.loads(run.out)["guarantee"]["groups"]
    assert groups == [[1, 7], [3, 5, 8], [0], [2], [4], [6], [9]]


def test_other_methods_give_their_result_and_say_how_to_repeat_it(
    modelkeep: Run, digits_model: Path, tmp_path: Path
) -> None:
    few = ("--data", "digits", "--examples", "3", "--json")
    run = modelkeep("certify", digits_model, *few, "--method", "smoothing", "--sigma", "0.1", "--samples", "50")
    assert run.code == 0, run.err
    found = Result.from_json(run.out)
    assert isinstance(found, Smoothed)
    assert found.command.endswith("--method smoothing --sigma 0.1 --samples 50 --seed 0")
    assert (tmp_path / "modelkeep-out" / "result.json").read_text() == run.out.rstrip("\n")
    run = modelkeep("certify", digits_model, *few, "--method", "smoothing", "--sigma", "0.1", "--guarantee", "top-3")
    assert "takes no guarantee" in run.err
    run = modelkeep("certify", digits_model, *few, "--method", "smoothing")
    assert "needs --sigma" in run.err


def test_weights_that_are_in_no_file_are_written_out(modelkeep: Run, tmp_path: Path) -> None:
    (tmp_path / "own_network.py").write_text(
        "import torch\n"
        "def small():\n"
        "    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))\n"
    )
    run = modelkeep("certify", "own_network:small", *QUICK, "--radius", "0.01")
    assert run.code == 0, run.err
    (command,) = re.findall(r"To check it: modelkeep (.*)", run.out)
    assert "weights.safetensors" in command
    assert modelkeep(*command.split()).code == 0


def test_a_certificate_that_was_tampered_with_is_refused(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    assert modelkeep("certify", digits_model, *QUICK, "--radius", "0.01").code == 0
    path = tmp_path / "modelkeep-out" / "certificate.json"
    path.write_text(path.read_text().replace('"radius": 0.01', '"radius": 0.02'))
    run = modelkeep("certify", "verify", path)
    assert run.code == 1
    assert "REFUSED: signature" in run.out
    path.write_text(path.read_text()[:500])
    run = modelkeep("certify", "verify", path)
    assert run.code == 1
    assert "not a whole certificate" in " ".join(run.out.replace("│", " ").split())


def test_what_cannot_be_done_is_said(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "other", y=datasets.load("digits", "test").y.numpy())
    for arguments, says in (
        ((digits_model, *QUICK, "--radius", "0.1", "--guarantee", "most"), "must be standard, top-K"),
        ((digits_model, *QUICK, "--radius", "0.1", "--guarantee", "affinity:1+cat"), "no class 'cat'"),
        ((digits_model, *QUICK, "--radius", "0"), "must be above 0"),
        (("verify", "c.json", "--data", "other.npz"), "inputs in an array 'x'"),
    ):
        run = modelkeep("certify", *arguments)
        assert run.code in (2, 4)
        assert says in " ".join(run.err.split())


def test_a_network_trained_for_it_is_certified_where_a_plain_one_is_not(
    modelkeep: Run, digits_model: Path, tmp_path: Path
) -> None:
    radius = ("--data", "digits", "--radius", "0.3")
    run = modelkeep("certify", "train", "cnn_2c2f", *radius, "--epochs", "6", "--batch-size", "64", "--json")
    assert run.code == 0, run.err
    found = json.loads(run.out)
    assert found["verified"]["value"] > 0.4
    saved = tmp_path / "modelkeep-out" / "certified.safetensors"
    assert {path.name for path in saved.parent.iterdir()} == {
        *("certified.safetensors", "result.json", "certify.html", "index.html")
    }
    assert f"{found['verified']['value']:.3f}" in modelkeep("certify", saved, *radius).out
    plain = modelkeep("certify", digits_model, *radius)
    assert "Nothing is certified" in plain.out
    assert "modelkeep certify train" in plain.out


def test_the_help_names_both_uses(modelkeep: Run) -> None:
    run = modelkeep("certify", "--help")
    assert run.code == 0
    assert "verify" in run.out
    assert "--radius" in modelkeep("certify", "model", "--help").out
