"""Both stores, each empty: what a test asks of `store` it asks of SQLite and of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from modelkeep.guard.store import Store, open_store


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store is to be."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/guard.db"
    return str(request.getfixturevalue("postgres").emptied())


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """An empty store."""
    opened = open_store(url)
    yield opened
    opened.close()
