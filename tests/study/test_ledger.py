"""The ledger keeps its promises whoever else uses it: one runner at a time, one result for ever."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from threading import Thread, Timer

import psutil
import pytest

from modelkeep.core.errors import StudyError
from modelkeep.study import Ledger, Trial
from modelkeep.study.record import LEASE_SECONDS

TRIALS = [Trial("trials:square", 1, {"x": x}, 0, "trials:square") for x in range(20)]
CODE = {"trials": "0123"}


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    ledger.remember("study", TRIALS)
    return ledger


def claimed(ledger: Ledger, trial: Trial = TRIALS[0], runner: str = "me") -> int:
    attempt = ledger.claim(trial, runner)
    assert isinstance(attempt, int)
    return attempt


def sql(ledger: Ledger, statement: str, *values: object) -> list[tuple[object, ...]]:
    with sqlite3.connect(ledger.path) as database:
        found = database.execute(statement, values).fetchall()
    database.close()
    return found


def test_a_result_is_recorded_once(filled: Ledger) -> None:
    attempt = claimed(filled)
    assert filled.claim(TRIALS[0], "other") == "busy"
    assert filled.finish(attempt, "1", 0.5, CODE)
    assert not filled.finish(attempt, "2", 0.5, CODE)
    assert filled.claim(TRIALS[0], "other") == "done"
    first, second, *_ = filled.records("study")
    assert (first.state, first.value, first.attempts) == ("done", 1, 1)
    assert (second.state, second.value, second.attempts) == ("missing", None, 0)


def test_a_result_is_replaced_once_and_stays_as_history(filled: Ledger) -> None:
    first = claimed(filled)
    filled.finish(first, "1", 0.5, CODE)
    assert filled.find_outdated("study") == {TRIALS[0].identity: first}  # there is no such module
    assert filled.claim(TRIALS[0], "me") == "done"
    second = filled.claim(TRIALS[0], "me", replacing=first)
    assert isinstance(second, int)
    assert filled.records("study")[0].value == 1  # until the new one is there
    assert filled.finish(second, "2", 0.5, {})
    assert filled.claim(TRIALS[0], "other", replacing=first) == "done"  # which saw the first one, too
    assert (filled.records("study")[0].value, filled.find_outdated("study")) == (2, {})
    assert sql(filled, "SELECT attempt, value FROM history") == [(first, "1")]


def test_the_code_of_many_results_is_stored_once(filled: Ledger) -> None:
    for trial in TRIALS[:3]:
        filled.finish(claimed(filled, trial), "1", 0.5, dict(CODE))
    assert sql(filled, "SELECT count(*) FROM closures") == [(1,)]


def test_a_failure_keeps_its_error_and_can_be_tried_again(filled: Ledger) -> None:
    filled.fail(claimed(filled), "failed", "Traceback …\nValueError: no", 0.5)
    record = filled.records("study")[0]
    assert (record.state, record.error, record.brief) == (
        "failed",
        "Traceback …\nValueError: no",
        "failed: ValueError: no",
    )
    assert filled.finish(claimed(filled), '"yes"', 0.5, CODE)
    record = filled.records("study")[0]
    assert (record.state, record.value, record.error, record.attempts) == ("done", "yes", None, 2)


def test_an_attempt_of_a_killed_process_is_lost_at_once(filled: Ledger) -> None:
    script = (
        "import sys, time; from modelkeep.study import Ledger, Trial\n"
        "Ledger(sys.argv[1]).claim(Trial('trials:square', 1, {'x': 0}, 0, 'trials:square'), 'gone')\n"
        "sys.stdout.write('claimed'); sys.stdout.flush(); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(filled.path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(7) == b"claimed"
        assert filled.claim(TRIALS[0], "me") == "busy"
        assert filled.records("study")[0].state == "running"
        os.kill(process.pid, signal.SIGKILL)
        # Wait for its death without reaping it: a zombie is dead too.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert filled.records("study")[0].state == "lost"
        assert filled.finish(claimed(filled), "0", 0.5, CODE)
    assert sql(filled, "SELECT state FROM attempts ORDER BY id") == [("lost",), ("done",)]


def test_an_attempt_on_another_host_is_lost_when_its_heart_stops(filled: Ledger) -> None:
    attempt = claimed(filled, runner="far away")
    sql(filled, "UPDATE attempts SET host = 'elsewhere', pid = 1")
    sql(filled, "UPDATE attempts SET heartbeat = ?", time.time() - LEASE_SECONDS / 2)
    assert filled.claim(TRIALS[0], "me") == "busy"
    sql(filled, "UPDATE attempts SET heartbeat = ?", time.time() - LEASE_SECONDS - 1)
    second = claimed(filled)
    # The one that was taken for dead comes back late: its value is dropped, whichever of the two ends first.
    assert not filled.finish(attempt, "1", 0.5, CODE)
    assert filled.finish(second, "1", 0.5, CODE)
    assert sql(filled, "SELECT count(*) FROM results") == [(1,)]


def test_a_heartbeat_keeps_an_attempt_alive(filled: Ledger) -> None:
    claimed(filled)
    sql(filled, "UPDATE attempts SET host = 'elsewhere', heartbeat = 0")
    filled.beat("me")
    assert filled.claim(TRIALS[0], "other") == "busy"


def test_release_ends_only_what_is_ours(filled: Ledger) -> None:
    claimed(filled)
    claimed(filled, TRIALS[1], "other")
    filled.release("me")
    assert [r.state for r in filled.records("study")[:2]] == ["interrupted", "running"]


def test_many_runners_share_the_trials_without_overlap(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    finished: list[str] = []

    def work(name: str) -> None:
        with Ledger(path) as own:  # all of them create it at the same moment
            own.remember("study", TRIALS)
            for trial in TRIALS:
                attempt = own.claim(trial, name)
                if isinstance(attempt, int) and own.finish(attempt, f'"{name}"', 0.5, CODE):
                    finished.append(trial.identity)

    threads = [Thread(target=work, args=(str(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(finished) == Counter(t.identity for t in TRIALS)
    with Ledger(path) as own:
        assert own.counts("study") == {"done": 20}


def test_a_ledger_that_another_runner_is_making_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE something (x)")
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO something VALUES (1)")
        (ending := Timer(0.3, other.execute, ["COMMIT"])).start()
        with Ledger(path) as own:
            assert own.studies() == []
        ending.join()


def test_the_same_name_with_other_trials_replaces_the_study_and_keeps_results(filled: Ledger) -> None:
    filled.finish(claimed(filled), "0", 0.5, CODE)
    filled.remember("study", TRIALS[5:7])
    assert [r.parameters for r in filled.records("study")] == [{"x": 5}, {"x": 6}]
    filled.remember("again", TRIALS[:2])
    assert [r.state for r in filled.records("again")] == ["done", "missing"]
    assert filled.studies() == ["study", "again"]


def test_what_is_not_a_ledger_is_refused_in_a_sentence(tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(StudyError, match="no ledger at"):
        Ledger(tmp_path / "none.sqlite3", create=False)
    (tmp_path / "text").write_text("not a database, " * 100)
    with pytest.raises(StudyError, match="cannot be used as a ledger") as refused:
        Ledger(tmp_path / "text")
    assert str(tmp_path / "text") not in [file.path for file in psutil.Process().open_files()], refused
    sql(ledger, "PRAGMA user_version = 99")
    with pytest.raises(StudyError, match="format 99"):
        Ledger(ledger.path)
    with pytest.raises(StudyError, match=r"no study 'x'\. Its studies: none yet"):
        ledger.records("x")
