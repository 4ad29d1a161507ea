"""The one way to report progress: methods open tasks, and a watcher sees them.

A method never prints. It writes ``with progress.task("PGD", total=40) as task: task.advance()``; with no
watcher installed that costs next to nothing. The command line installs a watcher with ``progress.show()``.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import IO, Protocol

from modelkeep.core.errors import OutOfTime

STREAM = "MODELKEEP_PROGRESS"
"""The environment variable with the file to which a command writes its progress as JSON lines, for other programs."""


@dataclass
class Task:
    """A piece of work that is under way: what it is, how much of it is done, of how much."""

    name: str
    total: float | None = None
    done: float = 0.0
    note: str = ""
    started: float = field(default_factory=time.monotonic)
    _watcher: Watcher | None = None

    def advance(self, amount: float = 1.0, note: str | None = None) -> None:
        """Say that `amount` more is done, and optionally a few words on how it goes."""
        self.done += amount
        if note is not None:
            self.note = note
        if self._watcher is not None:
            self._watcher.changed(self)
        deadline = _deadline.get()
        if deadline is not None and time.monotonic() > deadline:
            raise self._late()

    def _late(self) -> OutOfTime:
        seconds = time.monotonic() - self.started
        told = f"'{self.name}' was stopped after {seconds:.0f} s, at its time limit."
        if not self.total or not self.done:
            return OutOfTime(told, seconds)
        whole = seconds * self.total / self.done
        return OutOfTime(f"{told} {self.done:g} of {self.total:g} were done: about {whole:.0f} s in all.", whole)


class Watcher(Protocol):
    """A thing that shows progress. `opened` and `closed` bracket the `changed` calls of a task."""

    def opened(self, task: Task) -> None: ...
    def changed(self, task: Task) -> None: ...
    def closed(self, task: Task) -> None: ...


_watcher: ContextVar[Watcher | None] = ContextVar("modelkeep_progress", default=None)
_command: ContextVar[tuple[float, dict[str, str]] | None] = ContextVar("modelkeep_command", default=None)
_deadline: ContextVar[float | None] = ContextVar("modelkeep_deadline", default=None)


@contextmanager
def task(name: str, total: float | None = None) -> Iterator[Task]:
    """Open a task for the time of the block.

    >>> with task("count", total=3) as counting:
    ...     for _ in range(3):
    ...         counting.advance()
    >>> counting.done
    3.0
    """
    watcher = _watcher.get()
    opened = Task(name, total, _watcher=watcher)
    if watcher is not None:
        watcher.opened(opened)
    try:
        yield opened
    finally:
        if watcher is not None:
            watcher.closed(opened)


@contextmanager
def command(sources: Mapping[str, str] | None = None) -> Iterator[None]:
    """Say that a person started all of the block as one command, so that its whole time can be told.

    `sources` are what stood there for MODEL and DATA.
    """
    token = _command.set((time.monotonic(), dict(sources or {})))
    try:
        yield
    finally:
        _command.reset(token)


def command_seconds() -> float | None:
    """How long the command runs by now; None where none was started."""
    started = _command.get()
    return None if started is None else time.monotonic() - started[0]


def with_sources(line: str) -> str:
    """A command to repeat, with what was given for MODEL and DATA in their places.

    >>> with command({"MODEL": "my model.onnx", "DATA": "digits"}):
    ...     with_sources("modelkeep attack MODEL --data DATA --seed 0")
    "modelkeep attack 'my model.onnx' --data digits --seed 0"
    """
    started = _command.get()
    for name, given in (started[1] if started is not None else {}).items():
        line = re.sub(rf"(?<= ){name}(?= |$)", shlex.quote(given).replace("\\", r"\\"), line, count=1)
    return line


@contextmanager
def watch(watcher: Watcher) -> Iterator[None]:
    """Send the progress of everything in the block to `watcher`."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Stop the work of the block with `OutOfTime` once `seconds` are over, when a task next says that it goes on.

    What reports progress can be stopped so: between layers, steps or batches, never within one. An outer limit that
    ends earlier still holds.
    """
    ends = time.monotonic() + seconds
    outer = _deadline.get()
    token = _deadline.set(ends if outer is None else min(ends, outer))
    try:
        yield
    finally:
        _deadline.reset(token)


@contextmanager
def show(stream: IO[str] | None = None) -> Iterator[None]:
    """Show progress to a person: live bars on a terminal, a line now and then anywhere else.

    Where the environment names a file in MODELKEEP_PROGRESS, JSON lines for another program go there instead.
    """
    if place := os.environ.get(STREAM):
        with open(place, "a", encoding="utf-8") as file, watch(Snapshots(file)):
            yield
        return
    stream = stream if stream is not None else sys.stderr
    if not stream.isatty():
        with watch(Lines(stream)):
            yield
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    console = Console(file=stream)
    # On a narrow terminal names and notes are cut, so that the numbers between them stay whole: 22 columns.
    name, bar = max(20, console.width // 3), min(20, console.width // 10)
    note = max(10, console.width - name - bar - 22)
    bars = Progress(
        TextColumn("{task.description}", table_column=Column(no_wrap=True, max_width=name)),
        BarColumn(bar_width=bar),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[note]}", table_column=Column(no_wrap=True, max_width=note)),
        console=console,
        transient=True,
    )
    with bars, watch(_Bars(bars)):
        yield


class Lines:
    """Plain lines for logs: one at the start of a task, one every few seconds, one at the end."""

    def __init__(self, stream: IO[str], every_seconds: float = 5.0) -> None:
        self._stream = stream
        self._every = every_seconds
        self._last: dict[int, float] = {}
        self._written: dict[int, float] = {}

    def opened(self, task: Task) -> None:
        self._last[id(task)] = time.monotonic()

    def changed(self, task: Task) -> None:
        now = time.monotonic()
        if now - self._last[id(task)] >= self._every:
            self._last[id(task)] = now
            self._written[id(task)] = task.done
            self._write(task)

    def closed(self, task: Task) -> None:
        del self._last[id(task)]
        if self._written.pop(id(task), None) != task.done:
            self._write(task)

    def _write(self, task: Task) -> None:
        share = f"{task.done:g}" if task.total is None else f"{task.done:g}/{task.total:g}"
        seconds = time.monotonic() - task.started
        self._stream.write(f"{task.name}: {share} in {seconds:.1f} s {task.note}".rstrip() + "\n")
        self._stream.flush()


class Snapshots:
    """JSON lines for another program: in each all tasks that are open, the outermost first.

    >>> import io
    >>> stream = io.StringIO()
    >>> with watch(Snapshots(stream)), task("PGD", total=40) as climbing:
    ...     climbing.advance(10, note="52 %")
    >>> print(stream.getvalue().splitlines()[0])
    {"tasks": [{"name": "PGD", "done": 0.0, "total": 40, "note": ""}]}
    """

    def __init__(self, stream: IO[str], every_seconds: float = 0.2) -> None:
        self._stream = stream
        self._every = every_seconds
        self._open: list[Task] = []
        self._written = 0.0

    def opened(self, task: Task) -> None:
        self._open.append(task)
        self._write()

    def changed(self, task: Task) -> None:
        if time.monotonic() - self._written >= self._every:
            self._write()

    def closed(self, task: Task) -> None:
        self._open.remove(task)

    def _write(self) -> None:
        self._written = time.monotonic()
        tasks = [{"name": t.name, "done": t.done, "total": t.total, "note": t.note} for t in self._open]
        self._stream.write(json.dumps({"tasks": tasks}) + "\n")
        self._stream.flush()


def tell_end(code: int) -> None:
    """Say to the program that reads the JSON lines, if one does, that the command ended with this exit code."""
    if place := os.environ.get(STREAM):
        with open(place, "a", encoding="utf-8") as file:
            file.write(json.dumps({"ended": code}) + "\n")


class _Bars:
    """Live bars: the adapter between our tasks and rich's."""

    def __init__(self, bars: object) -> None:
        from rich.progress import Progress, TaskID

        assert isinstance(bars, Progress)
        self._bars = bars
        self._ids: dict[int, TaskID] = {}

    def opened(self, task: Task) -> None:
        self._ids[id(task)] = self._bars.add_task(task.name, total=task.total, note=task.note)

    def changed(self, task: Task) -> None:
        self._bars.update(self._ids[id(task)], completed=task.done, note=task.note)

    def closed(self, task: Task) -> None:
        self._bars.remove_task(self._ids.pop(id(task)))
