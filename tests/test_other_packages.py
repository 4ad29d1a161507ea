"""Another project's package adds a method: pip installs it, then the CLI, the contract and the audit know it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "nudging"
version = "1.0"

[project.entry-points."modelkeep.methods"]
"attack.nudge" = "nudging.nudge:Nudge"

[tool.setuptools]
packages = ["nudging"]
"""
NUDGE = '''"""Nudge: random steps inside the ball, by labels alone."""

from __future__ import annotations

import torch

from modelkeep.attack.base import BoundedAttack
from modelkeep.attack.case import Case
from modelkeep.core.access import Labels
from modelkeep.core.method import declare, setting


@declare("attack", "nudge", access="labels")
class Nudge(BoundedAttack):
    """Random steps inside the ball."""

    tries: int = setting("Random steps per example.", default=20, at_least=1)

    def search(self, case: Case[Labels], /) -> torch.Tensor:
        best = case.original.clone()
        for _ in range(self.tries):
            moved = case.inside(case.ball.random_point(case.original, case.generator, case.allowed))
            hit = case.answered(case.view.labels(moved))
            best[hit] = moved[hit]
        return best
'''
CHECK = """
import torch
from nudging.nudge import Nudge
from modelkeep import Model, datasets
from modelkeep.core.contract import check_method

data = datasets.load("digits", "test").first(20)
torch.manual_seed(0)
module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
model = Model(module, input_shape=(1, 8, 8), classes=data.classes)
print(check_method(Nudge(radius=0.5, tries=3), model, data))
print(Nudge(radius=0.5, tries=3)(model, data, seed=1).command)
"""
MODEL = """
import torch
from modelkeep import Model, architectures, datasets

data = datasets.load("digits", "test")
torch.manual_seed(0)
shape = {"input_shape": [1, 8, 8], "classes": 10}
model = Model(
    architectures.dense(**shape), input_shape=(1, 8, 8), classes=data.classes, bounds=(0, 1),
    architecture="modelkeep.architectures:dense", arguments=shape,
)
model.save("model.safetensors")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder beside the environment with the package in it, installed by pip, and a model."""
    folder = tmp_path_factory.mktemp("other")
    (folder / "source" / "nudging").mkdir(parents=True)
    (folder / "source" / "pyproject.toml").write_text(PROJECT)
    (folder / "source" / "nudging" / "__init__.py").touch()
    (folder / "source" / "nudging" / "nudge.py").write_text(NUDGE)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    run(folder, *command, "--target", str(folder / "site"), str(folder / "source"))
    run(folder, sys.executable, "-c", MODEL)
    return folder


def run(folder: Path, *command: str) -> str:
    # The package's own place stands first, then whatever this test was started with.
    paths = os.pathsep.join(filter(None, [str(folder / "site"), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def modelkeep(folder: Path, *arguments: str) -> str:
    return run(folder, sys.executable, "-c", "from modelkeep.cli import main; main()", *arguments)


def test_the_registry_lists_it(installed: Path) -> None:
    listed = json.loads(modelkeep(installed, "methods", "attack", "--json"))
    assert {"name": "nudge", "does": "Random steps inside the ball.", "access": "labels"}.items() <= listed[-1].items()


def test_the_command_line_takes_its_settings(installed: Path) -> None:
    shown = modelkeep(installed, "attack", "model.safetensors", "--data", "digits", "--method", "nudge", "--help")
    assert "Random steps per example." in " ".join(shown.replace("│", " ").split())
    options = ["--method", "nudge", "--radius", "0.5", "--tries", "3", "--examples", "10", "--no-curve", "--json"]
    told = json.loads(modelkeep(installed, "attack", "model.safetensors", "--data", "digits", *options))
    assert told["provenance"]["method"] == "attack/nudge"
    assert told["provenance"]["settings"]["tries"] == 3


def test_it_keeps_the_contract(installed: Path) -> None:
    told = run(installed, sys.executable, "-c", CHECK)
    assert "modelkeep attack MODEL --data DATA --method nudge --radius 0.5 --tries 3 --seed 1" in told


def test_the_audit_runs_it(installed: Path) -> None:
    told = json.loads(
        modelkeep(
            installed,
            "audit",
            "model.safetensors",
            "--data",
            "digits",
            "--examples",
            "20",
            "--attack",
            "nudge",
            "--json",
        )
    )
    assert "nudge" in json.dumps(told).lower()
