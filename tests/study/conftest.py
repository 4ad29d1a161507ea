"""What the tests of studies share: the trial functions can be imported, here and in worker processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelkeep.study import Ledger
from study.packages import Package


@pytest.fixture(autouse=True)
def _importable_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite3") as opened:
        yield opened


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # an edit within a second would find the old bytecode
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Package(tmp_path)
    yield made
    made.unload()
