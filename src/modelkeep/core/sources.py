"""The source text of a package's modules, read without importing them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock

_ONE_AT_A_TIME = Lock()


@cache
def module_texts(package: str = "modelkeep") -> dict[str, str]:
    """The text of each module of an installed package, by the module's dotted name.

    >>> "modelkeep.core.sources" in module_texts()
    True
    """
    spec = find_spec(package)
    texts: dict[str, str] = {}
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted(Path(folder).rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])
            texts[name] = path.read_text(encoding="utf-8")
    return texts


def module_text(module: str) -> str:
    """The text of one module; only the packages above it are imported."""
    if module.split(".")[0] == "modelkeep":
        return module_texts()[module]
    spec = find_spec(module)
    return Path(spec.origin).read_text(encoding="utf-8") if spec is not None and spec.origin else ""


def search(pattern: re.Pattern[str], word: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Each match of `pattern` in those of our modules whose text has `word`, with the module's name."""
    for module, text in module_texts().items():
        if word in text:
            for match in pattern.finditer(text):
                yield module, match


def parse(source: str | bytes) -> list[ast.stmt]:
    """The statements of a source text.

    Python 3.11 counts the depth of all parses in one place: two threads that parse at the same moment can make it raise
    a SystemError (CPython issue 106905). Ours take turns, and one that met another library's is tried again.
    """
    with _ONE_AT_A_TIME:
        try:
            return ast.parse(source).body
        except SystemError:
            return ast.parse(source).body


def parse_call(source: str) -> ast.Call:
    """The one call that a text consists of."""
    (statement,) = parse(source)
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    return statement.value
