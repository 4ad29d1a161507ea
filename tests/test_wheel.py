"""The wheel, in an empty environment with the core dependencies alone: what a new user installs must work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from modelkeep import __version__

ROOT = Path(__file__).parent.parent
# Of each extra one module that must be absent; the core runs without all of them.
OF_EXTRAS = ("numba", "fastapi", "uvicorn", "grpc", "onnx", "pyarrow", "rdata", "blake3", "gymnasium", "optuna", "ray")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    _run([sys.executable, str(ROOT / "tools" / "build_wheel.py"), str(folder)], folder)
    assert len(list(folder.glob("*.tar.gz"))) == 1
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def empty(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment that holds the wheel and the core dependencies, and nothing else.

    Installing torch takes a minute and more than a gigabyte, so the dependencies are links to the installed ones.
    """
    home = tmp_path_factory.mktemp("empty")
    venv.create(home, with_pip=True, symlinks=True)
    packages = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for distribution in _core(wheel):
        for name in {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (packages / name).exists():
                (packages / name).symlink_to(Path(str(distribution.locate_file(name))).resolve())
    commands = home / "bin"
    _run([str(commands / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)], home)
    return commands


def _core(wheel: Path) -> Iterator[metadata.Distribution]:
    """The installed distributions that the wheel requires without an extra, and what those require."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
        lines = packed.read(name).decode().split("\n\n")[0].splitlines()
    waiting = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    seen: set[str] = set()
    while waiting:
        required = Requirement(waiting.pop())
        name = canonicalize_name(required.name)
        if name in seen or (required.marker is not None and not required.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        assert not required.extras, f"{required} asks for extras, which this test does not follow"
        distribution = metadata.distribution(name)
        waiting.extend(distribution.requires or ())
        yield distribution


def _run(command: list[str], folder: Path) -> str:
    """What the command prints. It sees nothing of the environment that the tests run in."""
    outside = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in outside}
    environment |= {"PYTHONNOUSERSITE": "1", "COLUMNS": "120", "TERM": "dumb"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_the_wheel_holds_the_files_that_are_not_python(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    source = ROOT / "src"
    others = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file() and _is_data(path)}
    assert others <= names
    assert "modelkeep/py.typed" in others
    kinds = {path.rsplit(".", 1)[1] for path in others}
    assert kinds == {"css", "html", "js", "proto", "pyi", "safetensors", "svg", "toml", "typed"}
    assert wheel.name.startswith(f"modelkeep-{__version__}-")


def _is_data(path: Path) -> bool:
    return path.suffix != ".py" and path.parent.name != "__pycache__" and ".egg-info" not in str(path)


def test_the_environment_is_empty(empty: Path) -> None:
    code = (
        "import json, modelkeep; from importlib.util import find_spec;"
        f"print(json.dumps([modelkeep.__file__, [name for name in {OF_EXTRAS!r} if find_spec(name)]]))"
    )
    place, present = json.loads(_run([str(empty / "python"), "-c", code], empty))
    assert Path(place).is_relative_to(empty.parent)
    assert present == []


def test_the_core_runs_alone(empty: Path, tmp_path: Path) -> None:
    modelkeep = str(empty / "modelkeep")
    assert _run([modelkeep, "version"], tmp_path).strip() == __version__
    assert "Usage: modelkeep" in _run([modelkeep, "--help"], tmp_path)
    assert "report.html" in _run([modelkeep, "demo", "--budget", "5s"], tmp_path)
    audit = [modelkeep, "audit", "modelkeep-out/digits.safetensors", "--data", "digits", "--examples", "30"]
    assert json.loads(_run([*audit, "--out", "again", "--json"], tmp_path))["headline"]
    offered = _run([modelkeep, "doctor"], tmp_path).split("One install would add")[1]
    assert "guard" in offered


def test_the_studies_are_listed_without_the_packages_that_they_run_on(empty: Path, tmp_path: Path) -> None:
    assert "plasticity" in _run([str(empty / "modelkeep"), "study", "papers"], tmp_path)
