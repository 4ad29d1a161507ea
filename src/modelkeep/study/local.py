"""Local: the engine that runs trials in processes of this machine, and survives their crashes.

A worker is a fresh Python in a session of its own, reused from trial to trial. Trials and values cross as JSON
over a socket pair; no code and no pickle does. When the parent dies, the socket closes and the worker ends itself.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol

from modelkeep.core.errors import bad_parameter
from modelkeep.study.closure import Closure, File, hash_files
from modelkeep.study.execution import execute
from modelkeep.study.record import State
from modelkeep.study.trials import Trial

_LOOK_EVERY = 0.05
_START_WORKER = "from modelkeep.study.local import _serve; _serve()"


@dataclass(frozen=True)
class Limits:
    """What one attempt may use: `seconds` of time and `megabytes` of memory (resident, of the worker itself)."""

    seconds: float | None = None
    megabytes: float | None = None

    def __post_init__(self) -> None:
        for name in ("seconds", "megabytes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise bad_parameter("Limits", name, "a number above 0, or None for no limit", value)


@dataclass(frozen=True)
class Job:
    """What an engine gets: a trial, the directory that it works in, and its limits."""

    trial: Trial
    directory: str
    limits: Limits


@dataclass(frozen=True)
class Outcome:
    """How a job ended. `text` is the value as JSON where the state is "done", else the reason; `code` made it."""

    state: State
    text: str
    seconds: float
    code: Closure = field(default_factory=dict)


class Pool(Protocol):
    """An engine at work: give it at most `slots` jobs at a time."""

    slots: int

    def submit(self, job: Job) -> Future[Outcome]: ...


class Worker:
    """One worker process, watched from outside: time, memory and death are seen even when the trial hangs."""

    def __init__(self, threads: int, path: tuple[str, ...]) -> None:
        count = str(threads)
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONHASHSEED": "0",  # the order of a set of texts must not differ between workers
            **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), count),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.closing = False

    def _start(self) -> subprocess.Popen[bytes]:
        ours, theirs = Pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed by kill)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-u", "-X", "faulthandler", "-c", _START_WORKER, str(theirs.fileno())],
                env=self._environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,  # Ctrl-C is for the parent; and the whole group can be killed at once
            )
        self._connection, self._process = ours, process
        return process

    def _ready(self, limits: Limits) -> subprocess.Popen[bytes]:
        process, most = self._process, limits.megabytes
        # What earlier trials left in memory must not count against this one.
        if process is None or process.poll() is not None or (most and _megabytes(process.pid) > most / 2):
            self.kill()
            return self._start()
        return process

    def run(self, job: Job) -> Outcome:
        """Perform the job, in a new process where there is none."""
        process = self._ready(job.limits)
        self._begun = time.monotonic()
        state, text, files = self._watch(process, job)
        return Outcome(state, text, time.monotonic() - self._begun, hash_files(files))

    def _watch(self, process: subprocess.Popen[bytes], job: Job) -> tuple[State, str, dict[str, File]]:
        seconds, megabytes = job.limits.seconds or math.inf, job.limits.megabytes
        running = False
        try:
            self._log.seek(0)
            self._log.truncate()
            self._connection.send_bytes(json.dumps(asdict(job)).encode())
            while not self.closing:
                if self._connection.poll(_LOOK_EVERY):
                    state, text, files = json.loads(self._connection.recv_bytes())
                    if state != "begun":
                        return state, text, files
                    # Only now: what the start of a worker costs is not the trial's.
                    running, self._begun = True, time.monotonic()
                elif process.poll() is not None:
                    break
                elif running and time.monotonic() - self._begun > seconds:
                    self.kill()
                    return "timeout", f"The trial took more than {seconds:g} seconds and was killed.", {}
                # The resident memory is what the machine runs out of. RLIMIT_AS would also count what torch
                # only reserves, and refuse memory in the middle of a library that then crashes.
                elif megabytes is not None and (used := _megabytes(process.pid)) > megabytes:
                    self.kill()
                    return "memory", f"The trial used {used:.0f} MB, more than {megabytes:g} MB, and was killed.", {}
        except (EOFError, OSError):
            pass  # the worker died while we talked to it
        return "crashed", self.kill(), {}

    def kill(self) -> str:
        """End the process and all that it started; say how it ended and what it wrote last."""
        process, self._process = self._process, None
        if process is None:
            return ""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        self._connection.close()
        with self._log as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 4000))
            written = log.read().decode(errors="replace")
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return f"The worker process ended {how}.\n{written}".rstrip()


def _megabytes(pid: int) -> float:
    import psutil

    try:
        resident: int = psutil.Process(pid).memory_info().rss
    except psutil.NoSuchProcess:
        return 0.0
    return resident / 1e6


@dataclass(frozen=True)
class Local:
    """Run trials in `processes` of this machine (default: one per core), with `threads` each (default: its share).

    The number of threads can change the last digits of what torch computes: for results that are equal bit for
    bit, run with the same number of threads.
    """

    processes: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        for name in ("processes", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise bad_parameter("Local", name, "1 or more, or None for the cores' share", value)

    @contextmanager
    def start(self) -> Iterator[Pool]:
        """The pool of workers, for the time of the block; a process starts when its first job comes."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        processes = self.processes or cores
        pool = _Workers(processes, self.threads or max(1, cores // processes))
        try:
            yield pool
        finally:
            pool.close()


class _Workers:
    def __init__(self, slots: int, threads: int) -> None:
        self.slots = slots
        self._workers = [Worker(threads, import_path()) for _ in range(slots)]
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._watching = ThreadPoolExecutor(slots, "modelkeep-study")

    def submit(self, job: Job) -> Future[Outcome]:
        return self._watching.submit(self._run, job)

    def _run(self, job: Job) -> Outcome:
        worker = self._idle.get()
        try:
            return worker.run(job)
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        for worker in self._workers:
            worker.closing = True
        self._watching.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.kill()


def import_path() -> tuple[str, ...]:
    """Where this process finds its modules, so that a worker finds the same ones."""
    return tuple(os.path.abspath(directory) for directory in sys.path)


def _serve() -> None:
    """The worker's side: perform one job after the other until the parent is gone."""
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    jobs: SimpleQueue[bytes] = SimpleQueue()
    # A thread of its own, so that the end of the parent is seen also in the middle of a trial.
    Thread(target=_listen, args=(connection, jobs), daemon=True).start()
    import torch  # noqa: F401  (before the first trial's time begins to count)

    while True:
        job = json.loads(jobs.get())
        connection.send_bytes(b'["begun", "", {}]')
        reply = execute(Trial(**job["trial"]), job["directory"])
        connection.send_bytes(json.dumps(reply).encode())


def _listen(connection: Connection[Any, Any], jobs: SimpleQueue[bytes]) -> None:
    try:
        while True:
            jobs.put(connection.recv_bytes())
    except (EOFError, OSError):
        os.killpg(0, signal.SIGKILL)  # this process and whatever the trial started
