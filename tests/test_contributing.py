"""CONTRIBUTING followed literally: its files are added to a copy of the source, its commands are run there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILE = re.compile(r"^```python\n# (?P<path>\S+\.py)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```console\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def files() -> dict[str, str]:
    """The files that the page adds, by path."""
    return {match["path"]: match["text"] for match in FILE.finditer(PAGE)}


def commands() -> list[str]:
    """The commands that the page runs, in their order; `make` is tested by CI itself."""
    lines = [line[2:] for match in COMMANDS.finditer(PAGE) for line in match["lines"].splitlines()]
    return [line for line in lines if not line.startswith(("make ", "git "))]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source and the tests with the files of the page in it."""
    copy = tmp_path_factory.mktemp("checkout")
    without = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in ("src", "tests", "docs", "tools"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=without)
    for file in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / file, copy / file)
    for path, text in files().items():
        assert not (copy / path).exists(), f"{path} exists already"
        (copy / path).write_text(text, encoding="utf-8")
    return copy


def test_each_kind_of_addition_is_one_file_and_one_test() -> None:
    source = [path for path in files() if path.startswith("src/")]
    tests = [path for path in files() if path.startswith("tests/")]
    assert len(source) == len(tests) == 4
    assert sorted(tests) == sorted(
        re.sub(r"^src/modelkeep/(.*/)?(\w+)\.py$", r"tests/\1test_\2.py", path) for path in source
    )


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_page_works(command: str, checkout: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout / 'tests'}",
    }
    done = subprocess.run(
        ["sh", "-ec", command], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
