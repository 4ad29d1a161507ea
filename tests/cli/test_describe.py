"""`modelkeep describe`: what is known and from where, what is asked for, and a file that the other verbs find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from cli.running import Run
from modelkeep import Model
from modelkeep.core.model_file import Description

FACTORY = """
import torch
from torch import nn

def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))

def trained():
    module = network()
    nn.init.ones_(module[1].weight)
    nn.init.zeros_(module[1].bias)
    return module
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A .pt2 file, which knows its shape and its number of classes."""
    (tmp_path / "described_network.py").write_text(FACTORY)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    batch = torch.export.Dim("batch")
    exported = torch.export.export(module, (torch.rand(2, 1, 4, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(exported, tmp_path / "m.pt2")
    return tmp_path / "m.pt2"


def test_each_item_says_where_it_comes_from(modelkeep: Run, program: Path, tmp_path: Path) -> None:
    Description(classes=("a", "b", "c"), bounds=(0.0, 2.0)).write(tmp_path / "m.toml")
    run = modelkeep("describe", "m.pt2", "--mean", "0.5", "--std", "0.5", "--bounds", "0,1", "--json")
    assert run.code == 0, run.err
    found = json.loads(run.out)
    assert {name: told["from"] for name, told in found["known"].items()} == {
        "input_shape": "'m.pt2'",
        "classes": "'m.toml'",
        "preprocessing": "what was given",
        "bounds": "what was given",
    }
    assert found["answers"] == [2, 3]
    assert found["written"] == "m.toml"
    model = Model.load(program)  # the other verbs find it
    assert (model.classes, model.bounds) == (("a", "b", "c"), (0.0, 1.0))
    assert model.card.preprocessing.mean == (0.5,)


def test_a_file_that_says_everything_needs_no_other(modelkeep: Run, digits_model: Path) -> None:
    run = modelkeep("describe", digits_model)
    assert run.code == 0, run.err
    assert "nothing to write" in run.out
    assert "0, 1, 2, 3, 4, 5, 6, 7, 8, 9" in run.out
    assert not digits_model.with_suffix(".toml").exists()


def test_what_is_missing_is_named_as_options(modelkeep: Run, program: Path) -> None:
    run = modelkeep("describe", "described_network:network")
    assert run.code != 0
    assert "--input-shape" in run.err
    assert "--classes" in run.err


def test_what_is_missing_is_asked_for_in_a_terminal(
    modelkeep: Run, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["1,4,4"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", lambda text: next(answers))
    run = modelkeep("describe", "described_network:network")
    assert run.code == 0, run.err
    told = Description.read(tmp_path / "network.toml")
    assert (told.input_shape, told.classes) == ((1, 4, 4), 3)  # the classes are counted
    assert "--describe network.toml" in run.out


def test_an_untrained_factory_is_said_to_be_so(modelkeep: Run, program: Path, tmp_path: Path) -> None:
    for factory, untrained in (("network", True), ("trained", False)):
        run = modelkeep("describe", f"described_network:{factory}", "--input-shape", "1,4,4", "--json")
        assert run.code == 0, run.err
        assert bool(json.loads(run.out)["warnings"]) == untrained


def test_an_untrained_model_is_red_in_every_report(modelkeep: Run, program: Path, tmp_path: Path) -> None:
    import numpy as np

    random = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", x=random.random((30, 1, 4, 4)), y=np.arange(30) % 3)
    for verb, record, options in (
        ("audit", "run.json", ["--examples", "6", "--steps", "2"]),
        ("attack", "attack.json", ["--method", "fgsm", "--radius", "0.1", "--no-curve", "--examples", "6"]),
        ("explain", "explain.json", ["--examples", "2"]),
        ("bias", "bias.json", []),
    ):
        run = modelkeep(verb, "described_network:network", "--data", "data.npz", *options)
        assert run.code == 0, f"{verb}: {run.err}"
        assert "The model is untrained: its factory drew 2 of its 2 parameters at random" in run.err
        told = json.loads((tmp_path / "modelkeep-out" / record).read_text())
        assert "untrained" in told["provenance"]["warnings"][0], verb
        page = next(iter((tmp_path / "modelkeep-out").glob(f"{'report' if verb == 'audit' else verb}.html")))
        assert "The model is untrained" in page.read_text(), verb
    audit = json.loads((tmp_path / "modelkeep-out" / "run.json").read_text())
    findings = [finding["id"] for section in audit["sections"] for finding in section["findings"]]
    assert "model.untrained" in findings
