"""A folder that trials share: the same for the same settings, and for one of them at a time."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path

import pytest

from modelkeep.study.shared import shared_folder
from modelkeep.study.trial import working_in


def test_folder_follows_the_settings(tmp_path: Path) -> None:
    found = []
    for trial, settings in (("a", {"x": 1, "y": 2}), ("b", {"y": 2, "x": 1}), ("c", {"x": 1, "y": 3})):
        with working_in(tmp_path / trial), shared_folder("target", settings, working_in) as kept:
            found.append(kept)
    assert found[0] == found[1] != found[2]
    assert all(kept.parent == tmp_path and kept.is_dir() and kept.name.startswith("target-") for kept in found)


def test_folder_follows_the_code_that_makes_what_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = tmp_path / "maker_of_once.py"
    found = []
    monkeypatch.syspath_prepend(tmp_path)
    maker.write_text("def make(): return 1")
    make = importlib.import_module("maker_of_once").make
    for code in ("def make(): return 1", "def make(): return 2"):
        maker.write_text(code)
        with working_in(tmp_path / "trial"), shared_folder("target", [1], make) as kept:
            found.append(kept)
    assert found[0] != found[1]


def test_one_at_a_time(tmp_path: Path) -> None:
    entered, order = threading.Event(), []

    def second() -> None:
        with working_in(tmp_path / "second"):
            entered.set()
            with shared_folder("target", [1], working_in):
                order.append("second")

    waiting = threading.Thread(target=second)
    with working_in(tmp_path / "first"), shared_folder("target", [1], working_in):
        waiting.start()
        entered.wait()
        waiting.join(timeout=0.2)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]
