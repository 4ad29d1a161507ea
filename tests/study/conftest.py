"""What the tests of studies share: the trial functions can be imported, here and in worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from modelkeep.study import Ledger


@pytest.fixture(autouse=True)
def _importable_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite3") as opened:
        yield opened
