"""A lazy package imports a name when it is first asked for, from the place that its type-checking block names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGE = """
from typing import TYPE_CHECKING
from modelkeep.core.lazy import attach

if TYPE_CHECKING:
    from shelf.heavy import Book, weigh as lift
    from shelf import room as room

__all__ = ["Book", "lift", "room"]
__getattr__, __dir__ = attach(__name__)
"""
TRIAL = """
import sys, shelf

assert "shelf.heavy" not in sys.modules and dir(shelf) == ["Book", "lift", "room"]
assert shelf.room.__name__ == "shelf.room"  # a module, which nothing has imported yet
assert "shelf.heavy" not in sys.modules
assert shelf.Book is shelf.heavy.Book and shelf.lift is shelf.heavy.weigh
for absent in ("Shelf", "weigh", "__wrapped__"):
    try:
        getattr(shelf, absent)
    except AttributeError as error:
        assert str(error) == f"module 'shelf' has no attribute '{absent}'"
    else:
        raise AssertionError(absent)
from shelf import *
assert Book and lift and room
"""


def test_a_lazy_package_behaves_like_an_ordinary_one(tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "__init__.py").write_text(PACKAGE)
    (shelf / "heavy.py").write_text("class Book: ...\n\ndef weigh(): ...\n")
    (shelf / "room.py").write_text("")
    done = subprocess.run([sys.executable, "-c", TRIAL], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
