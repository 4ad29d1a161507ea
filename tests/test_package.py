"""What the package exports, and that importing it stays cheap."""

from __future__ import annotations

import subprocess
import sys

import pytest

import modelkeep
from modelkeep.core.errors import MissingExtra, ModelKeepError


def test_the_exports_are_these() -> None:
    assert modelkeep.__all__ == [
        "Cut",
        "Data",
        "Estimate",
        "Labels",
        "Model",
        "ModelKeepError",
        "Preprocessing",
        "Result",
        "Scores",
        "Slice",
        "Weights",
    ]
    for name in modelkeep.__all__:
        assert getattr(modelkeep, name).__name__ == name
    assert set(dir(modelkeep)) == {*modelkeep.__all__, "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = modelkeep.nothing


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("matplotlib", "scipy", "sklearn", "pandas", "ray", "onnx", "rich", "typer", "jinja2")
    code = f"import sys, modelkeep; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_core_types_load_nothing_heavy_beside_torch() -> None:
    code = (
        "import sys, torch; before = set(sys.modules); from modelkeep import Data, Model, Result, Slice, Scores;"
        "print([m for m in ('matplotlib', 'scipy', 'sklearn', 'pandas', 'ray', 'onnx', 'rich') "
        "if m in set(sys.modules) - before])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_missing_extra_says_how_to_install_it() -> None:
    error = MissingExtra("scale", "ray", "Running a study on Ray")
    assert isinstance(error, ModelKeepError)
    assert isinstance(error, ImportError)
    assert str(error) == (
        "Running a study on Ray needs the package 'ray', which is not installed. "
        "Install it with: pip install 'modelkeep[scale]'"
    )
