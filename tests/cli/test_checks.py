"""What would fail at the end is refused before any work starts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from cli.running import Run
from modelkeep import cli
from modelkeep.cli.checks import check_device, check_out, check_out_file
from modelkeep.core import registry
from modelkeep.core.errors import InputError, ModelKeepError


def _with_out(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    below = getattr(command, "commands", None)
    if below is None and any("--out" in option.opts for option in command.params):
        yield path
    for name, each in (below or {}).items():
        yield from _with_out(each, (*path, name))


# What a verb must be told so that --out is the next thing that is wrong. No model and no data are there.
NEEDED = {
    "demo": [],
    "fix": ["robustness"],
    "describe": ["none.onnx"],
    "convert": ["none.pt"],
    "certify train": ["none.onnx", "--data", "digits", "--radius", "1"],
    "certify model": ["none.onnx", "--data", "digits", "--radius", "1"],
    "attack": ["none.onnx", "--data", "digits", "--radius", "1"],
    "harden": ["none.onnx", "--data", "digits", "--radius", "1"],
    "data show": ["none.npz"],
    "govern demo": [],
    "govern infer": ["alice", "--data", "digits"],
    "govern export": ["alice"],
    "govern assemble": ["a.json", "a.safetensors"],
    "govern keys rotate": ["alice", "--no-passphrase"],
    "govern keys replace": ["alice", "bob", "--new", "bob.party.json", "--reason", "lost"],
    "govern keys revoke": ["alice", "bob", "--reason", "lost"],
    "govern keys leave": ["alice", "--yes"],
    "encrypt ask": ["http://127.0.0.1:1", "--input", "none.npy"],
    "govern audit": ["agreement.json", "ledger.sqlite3"],
    "privacy": ["none.onnx", "--members", "digits"],
    "report": ["run.json"],
    "study export": ["none"],
    "study run": ["plasticity"],
}


@pytest.mark.parametrize("verb", list(_with_out(typer.main.get_command(cli.app))), ids=" ".join)
def test_every_verb_refuses_an_out_that_cannot_be_before_it_reads_anything(
    modelkeep: Run, verb: tuple[str, ...], tmp_path: Path
) -> None:
    needed = NEEDED.get(" ".join(verb), ["none.onnx", "--data", "digits"])
    (tmp_path / "taken").write_text("a file")
    ran = modelkeep(*verb, *needed, "--out", "taken/below/it")
    assert ran.code == 2, ran.err
    assert "modelkeep: --out must be" in ran.err
    assert (tmp_path / "taken").read_text() == "a file"
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_an_out_is_tried_and_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_out(None)
    check_out(tmp_path / "new" / "folder")
    check_out_file(tmp_path / "new.npz")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="is a folder"):
        check_out_file(tmp_path)
    with pytest.raises(InputError, match="can be written to"):
        check_out(Path("/proc/modelkeep"))  # where not even root writes
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10**9, 10**9, 2_000_000))
    with pytest.raises(ModelKeepError, match="only 2 MB left"):
        check_out(tmp_path)


def test_a_device_must_be_here() -> None:
    assert check_device(None) is None
    assert check_device("cpu") == "cpu"
    with pytest.raises(InputError, match=r"Got 'cude'\. Did you mean 'cuda'"):
        check_device("cude")
    with pytest.raises(InputError, match="Got 'cuda:99'; here: cpu"):
        check_device("cuda:99")


def test_a_device_is_checked_before_the_model_is_looked_for(modelkeep: Run) -> None:
    ran = modelkeep("audit", "none.onnx", "--data", "digits", "--device", "cuda:99")
    assert ran.code == 2
    assert "--device must be one that is here" in ran.err


def test_the_extra_of_a_method_is_checked_before_the_model_is_looked_for(
    modelkeep: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    ran = modelkeep("extract", "none.onnx", "--data", "digits", "--defence", "modelguard-s")
    assert ran.code == 4
    assert "pip install 'modelkeep[guard]'" in ran.err


@pytest.mark.parametrize("verb", ["audit", "attack", "explain", "harden", "bias", "complete", "certify", "extract"])
def test_data_of_another_shape_is_refused_before_any_work(modelkeep: Run, digits_model: Path, verb: str) -> None:
    radius = ["--radius", "1"] if verb in ("attack", "harden", "certify") else []
    ran = modelkeep(verb, digits_model, "--data", "wine", *radius)
    assert ran.code == 2
    assert "takes inputs of shape (1, 8, 8), but 'wine' has (13,)" in ran.err
