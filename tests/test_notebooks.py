"""The tutorials: one per capability, kept without outputs, whose names all exist. `make bench` runs them."""

from __future__ import annotations

import ast
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

TUTORIALS = Path(__file__).parent.parent / "docs" / "tutorials"
CAPABILITIES = {
    "attack", "audit", "bias", "certify", "complete", "encrypt", "explain", "extract", "govern", "harden", "privacy"
}  # fmt: skip
NOTEBOOKS = sorted(TUTORIALS.glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return found


def code(path: Path) -> str:
    """The code of all cells, without the lines that only Jupyter understands."""
    lines = "\n".join("".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "code").splitlines()
    return "\n".join(line for line in lines if not line.startswith(("%", "!")))


def test_each_capability_has_one_and_the_page_lists_it() -> None:
    assert {path.stem for path in NOTEBOOKS} == CAPABILITIES
    listed = (TUTORIALS / "index.md").read_text()
    assert all(f"({path.name})" in listed for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_holds_no_outputs_and_begins_with_words(path: Path) -> None:
    assert cells(path)[0]["cell_type"] == "markdown"
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells(path) if "outputs" in cell)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_it_imports_exists(path: Path) -> None:
    """A name that was renamed is noticed here, without the minutes that running it takes."""
    for node in ast.walk(ast.parse(code(path))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("modelkeep"):
            module = import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name), f"{path.name} imports {node.module}.{alias.name}"
