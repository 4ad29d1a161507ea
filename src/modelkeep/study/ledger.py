"""Ledger: the SQLite file that keeps studies, every attempt at a trial, and one result per trial for ever."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

from modelkeep.core.databases import write_ahead
from modelkeep.core.errors import StudyError
from modelkeep.study.trial import Trial, canonical

DEFAULT_PATH = Path("modelkeep-out/ledger.sqlite3")

State = Literal["missing", "running", "done", "failed", "timeout", "memory", "crashed", "interrupted", "lost"]
"""How an attempt stands. `lost`: the process that ran it was killed; `missing`: a trial was never tried."""

FAILURES: tuple[State, ...] = ("failed", "timeout", "memory", "crashed")

LEASE_SECONDS = 60.0
"""An attempt whose runner has given no sign of life for so long is lost. On the same host a dead process is
recognised at once; this is for other hosts."""

_SCHEMA_VERSION = 1
_PATIENCE = 30.0  # seconds that a change waits for those of other runners
_SCHEMA = """
CREATE TABLE IF NOT EXISTS trials (
    identity TEXT PRIMARY KEY, function TEXT NOT NULL, parameters TEXT NOT NULL, seed TEXT NOT NULL, code TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS studies (name TEXT PRIMARY KEY, updated REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS study_trials (
    study TEXT NOT NULL REFERENCES studies, position INTEGER NOT NULL, trial TEXT NOT NULL REFERENCES trials,
    PRIMARY KEY (study, position)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, trial TEXT NOT NULL REFERENCES trials, state TEXT NOT NULL,
    runner TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, started REAL NOT NULL, heartbeat REAL NOT NULL,
    ended REAL, seconds REAL, error TEXT
);
CREATE INDEX IF NOT EXISTS attempts_by_trial ON attempts (trial);
-- The two promises, kept by the database itself: a trial runs in one place at a time, and has one result.
CREATE UNIQUE INDEX IF NOT EXISTS one_runner ON attempts (trial) WHERE state = 'running';
CREATE TABLE IF NOT EXISTS results (
    trial TEXT PRIMARY KEY REFERENCES trials, value TEXT NOT NULL, attempt INTEGER NOT NULL UNIQUE REFERENCES attempts
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Record:
    """What the ledger knows of one trial of a study: its last attempt and, when it is done, its value."""

    identity: str
    function: str
    parameters: dict[str, Any]
    seed: int
    code: str
    state: State
    attempts: int
    seconds: float | None
    value: Any
    error: str | None

    @property
    def trial(self) -> Trial:
        """The trial that this is the record of."""
        return Trial(self.function, self.parameters, self.seed, self.code)

    @property
    def brief(self) -> str:
        """The value, or how the trial failed, in one short line."""
        if self.state == "done":
            text = json.dumps(self.value, ensure_ascii=False)
        else:
            # A traceback says what happened in its last line; our own sentences say it in the first.
            lines = (self.error or "").strip().splitlines()
            text = ": ".join([self.state, *lines[:: -1 if self.state == "failed" else 1][:1]])
        return text if len(text) <= 60 else text[:59] + "…"


class Ledger:
    """The ledger in the file at `path`; `create=False` refuses to make a new one.

    Only the process that runs a study writes to it. Every change is one transaction, and `synchronous=FULL` makes
    a recorded result survive a power cut too: it costs about a millisecond, and a trial costs seconds.

    >>> with Ledger(":memory:") as ledger:
    ...     ledger.studies()
    []
    """

    def __init__(self, path: str | Path = DEFAULT_PATH, *, create: bool = True) -> None:
        self.path = Path(path)
        if not create and not self.path.exists():
            raise StudyError(f"There is no ledger at '{path}'. Run a study first, or name another one with --ledger.")
        if str(path) != ":memory:":
            self.path.parent.mkdir(parents=True, exist_ok=True)
        # Autocommit, because _change() opens each transaction itself: IMMEDIATE, so that what a transaction has
        # read stays true until it has written.
        with ExitStack() as refused:
            try:
                self._database = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
                refused.callback(self._database.close)
                self._database.row_factory = sqlite3.Row
                version = self._prepare()
            except sqlite3.Error as error:
                raise StudyError(f"The file '{path}' cannot be used as a ledger: {error}.") from error
            if version != _SCHEMA_VERSION:
                raise StudyError(
                    f"The ledger '{path}' has format {version}; this version of modelkeep reads format "
                    f"{_SCHEMA_VERSION}."
                )
            refused.pop_all()

    def _prepare(self) -> int:
        write_ahead(self._database, _PATIENCE)
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("PRAGMA foreign_keys = ON")
        with self._change():
            version: int = self._database.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                for statement in _SCHEMA.split(";"):
                    self._database.execute(statement)
                self._database.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
                version = _SCHEMA_VERSION
        return version

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    @contextmanager
    def _change(self) -> Iterator[None]:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    def workdir(self, trial: Trial) -> Path:
        """Where a trial keeps its files: beside the ledger, under its identity."""
        return self.path.absolute().parent / "trials" / trial.identity

    def remember(self, name: str, trials: Sequence[Trial]) -> None:
        """Keep the study, so that it can be shown and resumed by its name; the trials replace earlier ones."""
        rows = [{**asdict(t), "parameters": canonical(t.parameters), "seed": str(t.seed)} for t in trials]
        with self._change():
            self._database.execute(
                "INSERT INTO studies VALUES (?, ?) ON CONFLICT DO UPDATE SET updated = excluded.updated",
                (name, time.time()),
            )
            self._database.execute("DELETE FROM study_trials WHERE study = ?", (name,))
            for position, (trial, row) in enumerate(zip(trials, rows, strict=True)):
                self._database.execute(
                    "INSERT OR IGNORE INTO trials VALUES (:identity, :function, :parameters, :seed, :code)",
                    {"identity": trial.identity, **row},
                )
                self._database.execute("INSERT INTO study_trials VALUES (?, ?, ?)", (name, position, trial.identity))

    def studies(self) -> list[str]:
        """The names of the studies, the one run last at the end."""
        return [row["name"] for row in self._database.execute("SELECT name FROM studies ORDER BY updated")]

    def claim(self, trial: Trial, runner: str) -> int | Literal["done", "busy"]:
        """Start an attempt and give its number to `runner`; or say that the trial is done, or runs somewhere else."""
        identity, now = trial.identity, time.time()
        with self._change():
            if self._database.execute("SELECT 1 FROM results WHERE trial = ?", (identity,)).fetchone():
                return "done"
            running = self._database.execute(
                "SELECT * FROM attempts WHERE trial = ? AND state = 'running'", (identity,)
            ).fetchone()
            if running is not None:
                if _is_alive(running, now):
                    return "busy"
                self._end(running["id"], "lost", None, "The process that ran this trial was killed.")
            attempt = self._database.execute(
                "INSERT INTO attempts (trial, state, runner, host, pid, started, heartbeat) "
                "VALUES (?, 'running', ?, ?, ?, ?, ?)",
                (identity, runner, socket.gethostname(), os.getpid(), now, now),
            ).lastrowid
            assert attempt is not None
            return attempt

    def beat(self, runner: str) -> None:
        """Say that the attempts of `runner` are alive."""
        with self._change():
            self._database.execute(
                "UPDATE attempts SET heartbeat = ? WHERE runner = ? AND state = 'running'", (time.time(), runner)
            )

    def release(self, runner: str) -> None:
        """End whatever `runner` has not finished: the study was stopped."""
        with self._change():
            self._database.execute(
                "UPDATE attempts SET state = 'interrupted', ended = ? WHERE runner = ? AND state = 'running'",
                (time.time(), runner),
            )

    def finish(self, attempt: int, value: str, seconds: float) -> bool:
        """Record the value (JSON) and the end of the attempt together. False where the attempt was not ours any more.

        An attempt that another run took for lost may still come to its end; its value is dropped, because the
        other run records the same trial.
        """
        with self._change():
            ours = self._end(attempt, "done", seconds)
            if ours:
                self._database.execute(
                    "INSERT INTO results SELECT trial, ?, id FROM attempts WHERE id = ?", (value, attempt)
                )
            return ours

    def fail(self, attempt: int, state: State, error: str, seconds: float) -> None:
        """Record how the attempt ended without a value."""
        with self._change():
            self._end(attempt, state, seconds, error)

    def _end(self, attempt: int, state: State, seconds: float | None, error: str | None = None) -> bool:
        return bool(
            self._database.execute(
                "UPDATE attempts SET state = ?, ended = ?, seconds = ?, error = ? WHERE id = ? AND state = 'running'",
                (state, time.time(), seconds, error, attempt),
            ).rowcount
        )

    def records(self, name: str) -> list[Record]:
        """The trials of a study in their order, each with its state, value or error."""
        rows = self._database.execute(
            """
            SELECT trials.*, value, last.state, last.error, last.host, last.pid, last.started, last.heartbeat,
                   last.seconds, (SELECT count(*) FROM attempts WHERE trial = trials.identity) AS attempts
            FROM study_trials JOIN trials ON trials.identity = study_trials.trial
            LEFT JOIN results ON results.trial = trials.identity
            LEFT JOIN attempts AS last ON last.id = (SELECT max(id) FROM attempts WHERE trial = trials.identity)
            WHERE study = ? ORDER BY position
            """,
            (name,),
        ).fetchall()
        if not rows:
            known = ", ".join(self.studies()) or "none yet"
            raise StudyError(f"The ledger '{self.path}' has no study '{name}'. Its studies: {known}.")
        return [_record(row) for row in rows]

    def counts(self, name: str) -> Counter[State]:
        """How many trials of the study are in each state."""
        return Counter(record.state for record in self.records(name))


def _record(row: sqlite3.Row) -> Record:
    state: State = row["state"] or "missing"
    # A reader does not write; the next run marks it so.
    if state == "running" and not _is_alive(row, time.time()):
        state = "lost"
    return Record(
        row["identity"],
        row["function"],
        json.loads(row["parameters"]),
        int(row["seed"]),
        row["code"],
        state,
        row["attempts"],
        row["seconds"],
        json.loads(row["value"]) if row["value"] is not None else None,
        row["error"],
    )


def _is_alive(attempt: sqlite3.Row, now: float) -> bool:
    if now - attempt["heartbeat"] > LEASE_SECONDS:
        return False
    if attempt["host"] != socket.gethostname():
        return True
    import psutil

    try:
        runner = psutil.Process(attempt["pid"])
        # A process that began after the attempt only has the same number; 5 s, as clocks are not that exact.
        return runner.status() != psutil.STATUS_ZOMBIE and runner.create_time() < attempt["started"] + 5
    except psutil.NoSuchProcess:
        return False
