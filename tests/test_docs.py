"""Every code block in README and docs runs: Python in one process per page, commands in processes of their own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from forked import Interpreter, run_command

ROOT = Path(__file__).parent.parent
# CONTRIBUTING adds files to the source, and the gallery needs an owner's files: tests/test_contributing.py and
# tests/test_gallery.py follow them.
FOLLOWED = {ROOT / "CONTRIBUTING.md", ROOT / "docs" / "gallery.md"}
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - FOLLOWED)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a block may be; anything else would be a block that is never run.
RUN = {"python", "console"}
SHOWN = {"text", "toctree", "eval_rst"}
LONGEST = 600  # seconds of one block or command
# What only a shell can read; any other line of `modelkeep` runs in a process that has torch imported already.
SHELL = re.compile(r"[|&;<>$`*?~#\\]")


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_the_page_runs(page: Path, tmp_path: Path) -> None:
    """Blocks run in order in one folder, so that a command may use the file that a Python block wrote."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "settings"),  # where keys are made
    }
    with Interpreter(tmp_path, environment, seconds=LONGEST) as interpreter:
        for language, body in blocks(page):
            assert language in RUN | SHOWN, f"{page.name} has a block in '{language}' that no test runs"
            if language == "python":
                interpreter.run(body)
            elif language == "console":
                for line in body.splitlines():
                    if line.startswith("$ make "):
                        dry = ["make", "--dry-run", "--directory", str(ROOT), line.split()[2]]
                        _run(dry, tmp_path, environment, line)
                    elif line.startswith("$ modelkeep ") and not SHELL.search(line[2:]):
                        ended = run_command(shlex.split(line)[2:], tmp_path, environment, seconds=LONGEST)
                        assert ended.code == 0, f"{line}\n{ended.said[-6000:]}"
                    elif line.startswith("$ "):
                        _run(["sh", "-ec", line[2:]], tmp_path, environment, line)


def _run(command: list[str], folder: Path, environment: dict[str, str], what: str) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LONGEST)
    assert done.returncode == 0, f"{what}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def test_every_package_with_public_names_has_a_page_of_reference() -> None:
    """The core has no list of its own; `cli` is documented by its own help."""
    public = {
        file.parent.name for file in (ROOT / "src" / "modelkeep").glob("*/__init__.py") if "__all__" in file.read_text()
    }
    pages = {page.stem: page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md")}
    for package in public - {"cli"}:
        assert f".. automodule:: modelkeep.{package}\n" in pages.get(package, ""), f"docs/reference/{package}.md"
    assert all(page == "index" or f"\n{page}\n" in pages["index"] for page in pages)


def test_the_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    """All is read, resolved and checked; "dummy" writes no page, which saves half of the time."""
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "dummy", str(ROOT / "docs"), str(tmp_path / "built")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
