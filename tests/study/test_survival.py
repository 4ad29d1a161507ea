"""The real thing: a study is killed, stopped and run twice at once, and the ledger is as if nothing had happened."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from processes import PATIENCE, wait_until

HERE = Path(__file__).parent
TRIALS = 14


class Driven:
    """A ledger whose study runs in other processes, and the log in which each execution left a line."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.ledger, self.log = directory / "ledger.sqlite3", directory / "log"

    def start(self, processes: int = 2) -> subprocess.Popen[bytes]:
        command: list[str | Path] = [
            sys.executable,
            HERE / "drive.py",
            self.ledger,
            self.log,
            str(TRIALS),
            str(processes),
        ]
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(HERE)}, stderr=subprocess.PIPE)

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        if not self.ledger.exists():
            return []
        database = sqlite3.connect(self.ledger, timeout=30)
        try:
            return database.execute(question).fetchall()
        except sqlite3.OperationalError:  # the tables are not there yet
            return []
        finally:
            database.close()

    def results(self) -> list[tuple[Any, ...]]:
        """Parameters without the log's path, and values."""
        return self.ask(
            "SELECT json_extract(parameters, '$.x') AS x, seed, name, version, value "
            "FROM results JOIN trials ON trials.identity = results.trial ORDER BY x"
        )

    def has(self, count: int) -> bool:
        return len(self.results()) >= count

    def states(self) -> Counter[str]:
        """How many attempts ended in which way."""
        return Counter(state for (state,) in self.ask("SELECT state FROM attempts"))

    def times(self) -> Counter[int]:
        """How often each trial was executed."""
        return Counter(x for x, _ in self.executions())

    def executions(self) -> list[tuple[int, int]]:
        """Which trial was executed in which process."""
        if not self.log.exists():
            return []
        return [(int(x), int(pid)) for x, pid in (line.split() for line in self.log.read_text().splitlines())]


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    driven = Driven(tmp_path_factory.mktemp("study") / "uninterrupted")
    with driven.start(processes=1) as process:
        assert process.wait() == 0
    results = driven.results()
    assert [(row[0], row[-1]) for row in results] == [(x, str(x * x)) for x in range(TRIALS)]
    return results


def test_kill_9_loses_no_finished_trial_and_records_none_twice(
    uninterrupted: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    driven = Driven(tmp_path / "killed")
    executed: dict[int, int] = {}  # how often each trial with a result was executed when it was recorded
    for enough in (1, 6):
        with driven.start() as process:
            wait_until(partial(driven.has, enough), process)
            process.kill()
        # The workers do not outlive their parent.
        wait_until(lambda: all(gone(pid) for _, pid in driven.executions()))
        recorded = driven.results()
        assert enough <= len(recorded) < TRIALS
        assert set(executed) <= {x for x, *_ in recorded}
        times = driven.times()
        executed |= {x: times[x] for x, *_ in recorded if x not in executed}
    with driven.start(processes=1) as process:
        assert process.wait() == 0
    assert driven.results() == uninterrupted
    times = driven.times()
    assert executed.items() <= times.items()
    # Two processes, two kills: at most four trials were under way, and every attempt says how it ended.
    assert sum(times.values()) <= TRIALS + 4
    states = driven.states()
    assert states["done"] == TRIALS
    assert 1 <= states["lost"] <= 4
    assert states.total() == TRIALS + states["lost"]


def test_ctrl_c_stops_at_once_and_keeps_what_is_finished(uninterrupted: list[tuple[Any, ...]], tmp_path: Path) -> None:
    driven = Driven(tmp_path / "stopped")
    with driven.start() as process:
        wait_until(lambda: driven.has(3), process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGINT
    assert b"KeyboardInterrupt" in errors
    assert driven.states()["running"] == 0
    assert all(gone(pid) for _, pid in driven.executions())
    with driven.start(processes=1) as process:
        assert process.wait() == 0
    assert driven.results() == uninterrupted


def test_two_runs_at_once_share_the_work(uninterrupted: list[tuple[Any, ...]], tmp_path: Path) -> None:
    driven = Driven(tmp_path / "shared")
    with driven.start(processes=1) as one, driven.start(processes=1) as two:
        assert (one.wait(), two.wait()) == (0, 0)
    assert driven.results() == uninterrupted
    assert driven.times() == Counter(range(TRIALS))
    assert driven.states() == {"done": TRIALS}


def test_a_worker_killed_from_outside_costs_only_its_attempt(
    uninterrupted: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    driven = Driven(tmp_path / "worker")
    with driven.start(processes=1) as process:
        wait_until(lambda: len(driven.executions()) >= 2, process)
        os.kill(driven.executions()[-1][1], signal.SIGKILL)
        assert process.wait() == 0
    assert driven.results() == uninterrupted
    states = driven.states()
    assert states["crashed"] <= 1
    assert states == {"done": TRIALS, "crashed": states["crashed"]}
