"""Packages whose names are imported on first use, so that a command starts at once and needs no torch to print help.

A package says once where its names live, in the block that type checkers read, and `attach` takes them from there:

    from modelkeep.core.lazy import attach

    if TYPE_CHECKING:
        from modelkeep.certify.gloro import GloRoNet

    __all__ = ["GloRoNet"]
    if not TYPE_CHECKING:  # a type checker shall know these names and no others
        __getattr__, __dir__ = attach(__name__)
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from modelkeep.core.sources import parse


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of `package`.

    >>> import modelkeep
    >>> modelkeep.Model.__module__
    'modelkeep.core.model'
    """

    def get(name: str) -> Any:
        if name.startswith("__") or name not in _homes(package):
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        home, original = _homes(package)[name]
        if home == package:  # one of its own modules, which it would ask itself for again
            return import_module(f"{home}.{original}")
        return getattr(__import__(home, fromlist=[original]), original)

    def names() -> list[str]:
        public: list[str] = sys.modules[package].__all__
        return public

    return get, names


@cache
def _homes(package: str) -> dict[str, tuple[str, str]]:
    """The module, and the name in it, of each import under `if TYPE_CHECKING:` in the package's own source."""
    source = Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8")
    return {
        alias.asname or alias.name: (statement.module, alias.name)
        for block in parse(source)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom) and statement.module is not None
        for alias in statement.names
    }
