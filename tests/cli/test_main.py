"""The command as a person runs it: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from modelkeep import Model, __version__
from modelkeep.zoo.architectures import small_cnn


def modelkeep(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "modelkeep"), *arguments]
    environment = {**os.environ, "COLUMNS": "120", "TERM": "dumb"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=environment)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("demo")
    return folder, modelkeep("demo", "--budget", "10s", folder=folder)


def test_the_demo_leaves_a_report_and_says_what_matters(demo: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, run = demo
    assert run.returncode == 0, run.stderr
    assert str(folder / "modelkeep-out" / "report.html") in run.stdout
    severities = [line.split()[0] for line in run.stdout.splitlines() if line.startswith("  ")]
    assert severities[:1] == ["high"] or severities[:1] == ["medium"]
    assert "Do not ship: " in run.stdout or "Ship with care: " in run.stdout
    assert "The plan: about" in run.stderr
    assert "PGD: 247/247" in run.stderr  # progress, for the person who waits
    record = json.loads((folder / "modelkeep-out" / "run.json").read_text())
    assert record["headline"][0]["estimate"]["value"] > 0.9


def test_the_readers_own_model_and_data_in_one_line(tmp_path: Path) -> None:
    """A download may hold a model and a jinja2.py; auditing the model must not run the other."""
    (tmp_path / "jinja2.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    (tmp_path / "mine.py").write_text("from modelkeep.zoo.architectures import small_cnn as network\n")
    torch.manual_seed(0)
    model = Model(small_cnn((1, 8, 8), 3), input_shape=(1, 8, 8), classes=("a", "b", "c"), architecture="mine:network",
                  arguments={"input_shape": [1, 8, 8], "classes": 3})  # fmt: skip
    model.save(tmp_path / "mine.safetensors")
    random = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", x=random.random((30, 1, 8, 8), dtype=np.float32), y=np.arange(30) % 3,
             classes=np.array(["a", "b", "c"]))  # fmt: skip
    command = ["audit", "mine:network", "--weights", "mine.safetensors", "--data", "mine.npz", "--examples", "8"]
    run = modelkeep(*command, "--fail-on", "high", folder=tmp_path)
    assert run.returncode == 1, run.stderr  # an untrained network is a finding of high severity
    assert "no better than guessing" in run.stdout
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["audit", "nothing.safetensors", "--data", "digits"], "modelkeep: There is no file 'nothing.safetensors'.", 4),
        (["audit", "x.safetensors", "--data", "digitz"], "Did you mean 'digits'?", 2),
        (["audit", "x.safetensors", "--data", "digits", "--input-shape", "a,b"], "--input-shape", 2),
        (["study", "list"], "modelkeep: ", 4),
    ],
)
def test_mistakes_are_sentences_and_not_tracebacks(
    arguments: list[str], message: str, code: int, tmp_path: Path
) -> None:
    run = modelkeep(*arguments, folder=tmp_path)
    assert run.returncode == code
    assert message in run.stderr
    assert "Traceback" not in run.stderr
    assert run.stdout == ""


def test_help_teaches(tmp_path: Path) -> None:
    for arguments in ([], ["audit"], ["demo"], ["doctor"], ["data"], ["study"]):
        run = modelkeep(*arguments, "--help", folder=tmp_path)
        assert run.returncode == 0
        assert "Usage: modelkeep" in run.stdout
    assert modelkeep("version", folder=tmp_path).stdout.strip() == __version__


def test_the_doctor_knows_what_is_here_and_what_is_not(tmp_path: Path) -> None:
    run = modelkeep("doctor", "--json", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["machine"]["torch"] == torch.__version__
    parts = {part["name"]: part for part in found["parts"]}
    assert parts["torch"]["version"] == torch.__version__
    assert parts["torch"]["group"] == "core"
    assert parts["tenseal"]["enables"] == "running a model on encrypted data"
    assert all(part["enables"] and part["remedy"] for part in found["parts"])
    people = modelkeep("doctor", folder=tmp_path)
    assert "Works here" in people.stdout
    assert len(people.stdout.splitlines()) <= 23  # a screen
