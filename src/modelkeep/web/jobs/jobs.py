"""Jobs: starts commands, follows their progress, stops them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from modelkeep.core.errors import InputError
from modelkeep.core.progress import STREAM
from modelkeep.web.forms import show_line
from modelkeep.web.jobs.job import Job
from modelkeep.web.jobs.store import JobStore

_SAID = 30_000  # bytes of its output that a page shows, the last ones
_SNAPSHOT = 8_000  # bytes at the end of the progress file: more than one line
_SAME_BIRTH = 1.0  # seconds within which the same process is told to have begun


class Jobs:
    """The jobs of one folder. They go on when the application ends, and a new one finds them again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / ".ui"
        self._store: JobStore | None = None
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def start(self, words: Sequence[str]) -> Job:
        """Start `modelkeep WORDS` where the application was started, so that its paths mean the same."""
        out = _out(words)
        busy = next((job.id for job in self.all() if out and job.out == out and job.ended is None), None)
        if busy is not None:
            raise InputError(f"Job {busy} writes to '{out}' now. Wait for its end, stop it, or name another folder.")
        with self._lock:
            number = self._open().next_id()
            with self._log(number).open("wb") as log:
                process = subprocess.Popen(
                    # -P: a file in this folder must not pass for a library.
                    [sys.executable, "-P", "-m", "modelkeep.web.jobs.command", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, STREAM: str(self._stream(number).absolute()), "COLUMNS": "100"},
                    start_new_session=True,  # Ctrl-C in the terminal ends the application, not its jobs
                )
            self._processes[number] = process
            job = Job(number, tuple(words), show_line(words), out, time.time(), process.pid, _born(process.pid))
            self._open().add(job)
        return job

    def all(self) -> list[Job]:
        """All jobs as they stand now, the newest first."""
        with self._lock:
            if self._store is None and not self._path.exists():
                return []
            for process in self._processes.values():
                process.poll()  # also of those that another run of the application saw end
            for job in self._open().all():
                if job.ended is None and not self._runs(job):
                    self._open().end(job.id, self._last_sign(job), self._exit_code(job))
            return self._open().all()

    def find(self, number: int) -> Job:
        """The job of that number."""
        found = next((job for job in self.all() if job.id == number), None)
        if found is None:
            raise InputError(f"There is no job {number} here.")
        return found

    def cancel(self, number: int) -> Job:
        """Stop a job as Ctrl-C does: what it finished is kept."""
        job = self.find(number)
        if job.ended is not None:
            raise InputError(f"Job {number} does not run any more: it is {job.state}.")
        os.killpg(job.pid, signal.SIGINT)
        return job

    def progress(self, job: Job) -> list[dict[str, Any]]:
        """The tasks that are open, the outermost first: name, done, total, note."""
        tasks = self._last_line(job).get("tasks", []) if job.ended is None else []
        return tasks if isinstance(tasks, list) else []

    def said(self, job: Job) -> str:
        """The end of what it printed."""
        return _tail(self._log(job.id), _SAID)

    @property
    def _path(self) -> Path:
        return self._folder / "jobs.sqlite3"

    def _open(self) -> JobStore:
        if self._store is None:
            self._store = JobStore(self._path)
        return self._store

    def _log(self, number: int) -> Path:
        return self._folder / f"{number}.log"

    def _stream(self, number: int) -> Path:
        return self._folder / f"{number}.progress"

    def _runs(self, job: Job) -> bool:
        own = self._processes.get(job.id)
        if own is not None:
            return own.poll() is None
        try:
            process = psutil.Process(job.pid)
            return abs(process.create_time() - job.born) < _SAME_BIRTH and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def _last_sign(self, job: Job) -> float:
        """When it wrote for the last time: its end may have been while nothing watched."""
        files = [each for each in (self._stream(job.id), self._log(job.id)) if each.exists()]
        return max((each.stat().st_mtime for each in files), default=time.time())

    def _exit_code(self, job: Job) -> int | None:
        """As its process said itself; else as the system says, which it only tells the one that started it."""
        told = self._last_line(job).get("ended")
        own = self._processes.get(job.id)
        return told if isinstance(told, int) else (own.returncode if own is not None else None)

    def _last_line(self, job: Job) -> dict[str, Any]:
        for line in reversed(_tail(self._stream(job.id), _SNAPSHOT).splitlines()):
            try:
                found = json.loads(line)
            except ValueError:  # half of a line
                continue
            return found if isinstance(found, dict) else {}
        return {}


def _tail(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - most))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _born(pid: int) -> float:
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:  # it ended already
        return 0.0


def _out(words: Sequence[str]) -> str:
    """The folder that the command writes to, where it says one."""
    return next((value for option, value in pairwise(words) if option == "--out"), "")
