"""The version stands in one place, and everything that tells it reads it there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import modelkeep
from modelkeep.core import version

ROOT = Path(__file__).parents[2]


def test_the_version_is_written_once() -> None:
    assert modelkeep.__version__ == version.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", version.__version__)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "modelkeep.core.version.__version__"}
