"""Folders of trials: kept for the same code, and shared by one trial at a time."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from modelkeep.core.errors import StudyError
from modelkeep.study import workdir, working_in
from modelkeep.study.folder import shared_folder
from study.packages import Package


def test_folder_follows_the_settings(tmp_path: Path) -> None:
    found = []
    for trial, settings in (("a", {"x": 1, "y": 2}), ("b", {"y": 2, "x": 1}), ("c", {"x": 1, "y": 3})):
        with working_in(tmp_path / trial), shared_folder("target", settings) as kept:
            found.append(kept)
    assert found[0] == found[1] != found[2]
    assert all(kept.parent == tmp_path and kept.is_dir() and kept.name.startswith("target-") for kept in found)


def test_other_code_finds_the_folder_empty(package: Package, tmp_path: Path) -> None:
    """A checkpoint that other code began is not continued, neither in a trial's own folder nor in a shared one."""
    package.write("LIMIT = 1\n", "from pack.helper import LIMIT\ndef work(seed): return LIMIT\n")
    trial, own = "pack.trials:work", tmp_path / "trials" / "own"

    def look() -> tuple[bool, bool]:
        with working_in(own, trial):
            there = (workdir() / "checkpoint").exists()
            (workdir() / "checkpoint").write_text("half done")
            with shared_folder("target", [1]) as shared:
                shared_there = (shared / "weights").exists()
                (shared / "weights").write_text("done")
        return there, shared_there

    package.load()
    assert look() == (False, False)
    assert look() == (True, True)
    package.write("# Why one?\nLIMIT = 1\n")
    package.load()
    assert look() == (True, True)
    package.write("LIMIT = 2\n")
    package.load()
    assert look() == (False, False)


def test_one_at_a_time(tmp_path: Path) -> None:
    entered, order = threading.Event(), []

    def second() -> None:
        with working_in(tmp_path / "second"):
            entered.set()
            with shared_folder("target", [1]):
                order.append("second")

    waiting = threading.Thread(target=second)
    with working_in(tmp_path / "first"), shared_folder("target", [1]):
        waiting.start()
        entered.wait()
        waiting.join(timeout=0.2)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_workdir_is_there_only_while_a_trial_runs(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="working_in"):
        workdir()
    with working_in(tmp_path / "a"):
        assert workdir() == tmp_path / "a"
        assert workdir().is_dir()
