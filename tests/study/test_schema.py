"""A ledger of format 1 becomes one of this format in one step, and loses nothing."""

from __future__ import annotations

import shutil
import socket
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from modelkeep.core.errors import StudyError
from modelkeep.study import Ledger, Trial

STORED = Path(__file__).parents[1] / "stored" / "ledger.sqlite3"
PAPER = "bias-figure-9.1-small-seed-0"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copy(STORED, tmp_path / "ledger.sqlite3"))


def change(path: Path, statement: str, *values: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as database, database:
        return database.execute(statement, values).fetchall()


def test_every_row_is_there_afterwards(old: Path) -> None:
    counts = {
        table: change(old, f"SELECT count(*) FROM {table}")
        for table in ("trials", "studies", "study_trials", "attempts", "results")
    }
    attempts = change(old, "SELECT id, state, runner, started, seconds FROM attempts")
    values = change(old, "SELECT value FROM results ORDER BY attempt")
    for _ in range(2):  # the second time there is nothing left to do
        with Ledger(old) as ledger:
            assert {record.state for record in ledger.records(PAPER)} == {"done"}
        assert {table: change(old, f"SELECT count(*) FROM {table}") for table in counts} == counts
        assert change(old, "SELECT id, state, runner, started, seconds FROM attempts") == attempts
        assert change(old, "SELECT value FROM results ORDER BY attempt") == values
        assert change(old, "PRAGMA foreign_key_check") == []


def test_trials_that_differed_in_their_code_become_one_with_the_last_result(old: Path) -> None:
    ((first, parameters),) = change(old, "SELECT identity, parameters FROM trials WHERE function LIKE '%square'")
    change(old, "INSERT INTO trials VALUES ('other', 'stored.mine:square', ?, '1', '0.1.0+later')", parameters)
    columns = "runner, host, pid, started, heartbeat, ended, seconds, error"
    change(
        old,
        f"INSERT INTO attempts (trial, state, {columns}) SELECT 'other', state, {columns} FROM attempts "
        "WHERE trial = ?",
        first,
    )
    change(old, "INSERT INTO results SELECT 'other', '\"later\"', max(id) FROM attempts")
    with Ledger(old) as ledger:
        record = ledger.records("mine")[0]
    assert (record.value, record.attempts) == ("later", 2)
    assert record.changed_files == ("stored/mine.py",)
    assert change(old, "SELECT value FROM history") == [('{"seed":1,"square":49}',)]


def test_the_folder_of_an_unfinished_trial_goes_with_it(old: Path) -> None:
    ((before,),) = change(old, "SELECT identity FROM trials WHERE function LIKE '%square'")
    folder = old.parent / "trials" / str(before)
    folder.mkdir(parents=True)
    (folder / "checkpoint").write_text("half done")
    with Ledger(old) as ledger:
        trial = Trial.of("stored.mine:square", {"x": 7}, seed=1)
        assert (ledger.workdir(trial) / "checkpoint").read_text() == "half done"


def test_a_ledger_on_which_the_earlier_version_runs_is_left_alone(old: Path) -> None:
    change(
        old,
        "UPDATE attempts SET state = 'running', host = ?, pid = 1, started = ?, heartbeat = ? WHERE id = 1",
        socket.gethostname(),
        time.time(),
        time.time(),
    )
    before = change(old, "SELECT * FROM trials")
    with pytest.raises(StudyError, match="running a study on it"):
        Ledger(old)
    assert change(old, "SELECT * FROM trials") == before
    change(old, "UPDATE attempts SET heartbeat = 0 WHERE id = 1")
    with Ledger(old) as ledger:
        assert len(ledger.records(PAPER)) == 3
    assert change(old, "SELECT state FROM attempts WHERE id = 1") == [("lost",)]
