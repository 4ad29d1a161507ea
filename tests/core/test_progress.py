"""Progress reaches those who watch, and only them."""

from __future__ import annotations

import io
import os
import pty
import select

import pytest

from modelkeep.core import progress
from modelkeep.core.errors import OutOfTime


class Recorder:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, float]] = []

    def opened(self, task: progress.Task) -> None:
        self.seen.append(("opened", task.name, task.done))

    def changed(self, task: progress.Task) -> None:
        self.seen.append(("changed", task.name, task.done))

    def closed(self, task: progress.Task) -> None:
        self.seen.append(("closed", task.name, task.done))


def test_a_watcher_sees_all_tasks_also_when_one_fails() -> None:
    recorder = Recorder()
    with progress.watch(recorder):
        with progress.task("outer", 2) as outer:
            outer.advance()
            with pytest.raises(RuntimeError), progress.task("inner"):
                raise RuntimeError
        with progress.task("after"):
            pass
    with progress.task("unseen") as unseen:
        unseen.advance()
    names = [(event, name) for event, name, _ in recorder.seen]
    assert names == [
        ("opened", "outer"),
        ("changed", "outer"),
        ("opened", "inner"),
        ("closed", "inner"),
        ("closed", "outer"),
        ("opened", "after"),
        ("closed", "after"),
    ]


def test_a_log_gets_plain_lines() -> None:
    stream = io.StringIO()
    with progress.show(stream), progress.task("PGD", 3) as task:
        for _ in range(3):
            task.advance(note="loss 0.1")
    assert stream.getvalue().startswith("PGD: 3/3 in 0.")
    assert stream.getvalue().endswith("loss 0.1\n")
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_gets_bars() -> None:
    parent, child = pty.openpty()
    with open(child, "w") as terminal:
        with progress.show(terminal), progress.task("PGD", 3) as task:
            task.advance(3)
        terminal.flush()
        seen = b""
        while b"PGD" not in seen:  # a terminal hands over what it has so far
            assert select.select([parent], [], [], 10)[0], f"no bar in {seen!r}"
            seen += os.read(parent, 65536)
    os.close(parent)


def test_a_limit_stops_the_work_between_its_steps_and_says_how_long_it_would_have_taken() -> None:
    told = r"'Layers' was stopped after .* 1 of 4 were done"
    with pytest.raises(OutOfTime, match=told), progress.limit(-1), progress.task("Layers", total=4) as task:
        task.advance()
    with progress.task("Layers", total=4) as task:
        task.advance()  # the limit is over


def test_an_outer_limit_that_ends_earlier_holds() -> None:
    with pytest.raises(OutOfTime), progress.limit(-1), progress.limit(1000), progress.task("Layers") as task:
        task.advance()
