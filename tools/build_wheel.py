"""Build the source distribution and the wheel into a folder: `python tools/build_wheel.py dist`.

They are made from a copy of the sources: setuptools keeps a `build` folder beside them, and a file that was deleted
since would go into the next wheel again.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from setuptools import build_meta

ROOT = Path(__file__).parent.parent
NEEDED = ("pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE")


def build(folder: Path) -> tuple[Path, Path]:
    """The source distribution and the wheel, written to `folder`."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        for file in NEEDED:
            shutil.copy(ROOT / file, copy / file)
        os.chdir(copy)  # a build backend works in the current folder
        try:
            return folder / build_meta.build_sdist(str(folder)), folder / build_meta.build_wheel(str(folder))
        finally:
            os.chdir(ROOT)


if __name__ == "__main__":
    for built in build(Path(sys.argv[1])):
        sys.stdout.write(f"built {built}\n")
