"""Real processes and real kills: what was acknowledged is there, in its place, once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from guard.postgres_server import PostgresServer
from modelkeep.guard.store import open_store


def appending(url: str, name: int, count: int) -> subprocess.Popen[str]:
    script = Path(__file__).with_name("appending.py")
    return subprocess.Popen(
        [sys.executable, str(script), url, str(name), str(count)], stdout=subprocess.PIPE, text=True
    )


def lines(process: subprocess.Popen[str], count: int) -> list[list[int]]:
    """The next acknowledged (position, name, number)s, or all that remain."""
    assert process.stdout is not None
    read = [process.stdout.readline() for _ in range(count)]
    return [[int(word) for word in line.split()] for line in read if line.endswith("\n")]


def log_of(url: str) -> list[list[int]]:
    store = open_store(url)
    log: list[list[int]] = store.centroids("epoch", 0, 0).tolist()
    store.close()
    return log


def check(log: list[list[int]], acknowledged: Iterable[list[int]]) -> None:
    """Everything acknowledged stands in its place, and nothing stands twice."""
    for position, *mine in acknowledged:
        assert log[position] == mine
    assert len({tuple(row) for row in log}) == len(log)


def test_a_killed_writer_loses_nothing_that_was_acknowledged(url: str) -> None:
    acknowledged: list[list[int]] = []
    for name in range(2):
        with appending(url, name, 1_000_000) as process:
            acknowledged += lines(process, 60)
            process.kill()
            acknowledged += lines(process, 10_000)  # what it still said before it died
        log = log_of(url)
        check(log, acknowledged)
        assert len(log) - len(acknowledged) <= name + 1  # the append that was under way may be there, too


def test_processes_on_one_sqlite_file_append_in_turn(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/guard.db"
    with appending(url, 0, 40) as one, appending(url, 1, 40) as two:
        acknowledged = lines(one, 41) + lines(two, 41)
    assert one.returncode == two.returncode == 0
    log = log_of(url)
    check(log, acknowledged)
    assert sorted(log) == [[name, number] for name in range(2) for number in range(40)]


def test_postgres_restarted_twice_under_three_writers(postgres: PostgresServer) -> None:
    url = postgres.database()
    with ExitStack() as stack:
        processes = [stack.enter_context(appending(url, name, 150)) for name in range(3)]
        acknowledged = lines(processes[0], 30)
        postgres.restart()
        acknowledged += lines(processes[1], 60)
        postgres.kill()
        postgres.start()
        acknowledged += [line for process in processes for line in lines(process, 151)]
    assert [process.returncode for process in processes] == [0, 0, 0]
    log = log_of(url)
    check(log, acknowledged)
    assert len(acknowledged) == 450
    assert sorted(log) == [[name, number] for name in range(3) for number in range(150)]
