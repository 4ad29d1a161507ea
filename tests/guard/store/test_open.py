"""Addresses of stores."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modelkeep.core.errors import GuardError, MissingExtra
from modelkeep.guard.store import open_store


def test_three_slashes_begin_a_path_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///a store?.db").close()
    open_store(f"sqlite:///{tmp_path}/b#%20.db").close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a store?.db", "b#%20.db"]


@pytest.mark.parametrize("url", ["guard.db", "sqlite://guard.db", "sqlite:///", "mysql://u:secret@h/d", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(GuardError, match="A store is at sqlite:///PATH or postgresql://USER@HOST/DATABASE") as told:
        open_store(url)
    assert "secret" not in str(told.value)


def test_postgres_needs_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("postgres", "postgres_database"):
        monkeypatch.delitem(sys.modules, f"modelkeep.guard.store.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'modelkeep\[guard\]'"):
        open_store("postgresql://host/db")
