"""A worker runs a trial: its value or its traceback, and the code that made it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelkeep.core.results import Estimate, Result
from modelkeep.study import Trial
from modelkeep.study.execution import execute


@pytest.mark.parametrize(
    ("function", "last_line"),
    [
        ("fails", "ValueError: cannot do 1"),
        ("leaves", "SystemExit: left early"),
        ("returns_nan", "hold nan at ['losses'][1], which JSON has no number for. Use None or a text."),
        ("returns_object", "hold a object at the top. Allowed are text, numbers, True, False, None, and lists and"),
        ("no_such_function", "module 'trials' has no attribute 'no_such_function'"),
    ],
)
def test_what_goes_wrong_in_a_trial_is_told(function: str, last_line: str, tmp_path: Path) -> None:
    state, text, files = execute(Trial.of(f"trials:{function}", {"x": 1}), str(tmp_path))
    assert (state, files) == ("failed", {})
    assert last_line in text.strip().splitlines()[-1]


def test_a_result_is_stored_as_its_json(tmp_path: Path) -> None:
    state, text, files = execute(Trial.of("trials:returns_result", {"x": 9}), str(tmp_path))
    assert state == "done"
    assert "trials:returns_result" in files
    assert "modelkeep.core.results" in files
    assert not any(module.startswith("modelkeep.study") for module in files)  # it runs trials, and computes nothing
    result: Any = Result.from_json(text)
    assert (type(result).__name__, result.accuracy) == ("Accuracy", Estimate.rate(9, 10))


def test_a_trial_that_has_another_version_than_the_study_knew_fails(tmp_path: Path) -> None:
    """A worker must not record its value under the identity of before."""
    known = Trial.of("trials:square", {"x": 1})
    state, text, _ = execute(Trial(known.name, 2, known.parameters, 0, known.home), str(tmp_path))
    assert state == "failed"
    assert "it was trials:square, version 2; it is trials:square, version 1." in text
