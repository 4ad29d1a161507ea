"""Ledger: the SQLite file that keeps studies, every attempt at a trial, and the result of each trial."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal, Self

from modelkeep.core.databases import write_ahead
from modelkeep.core.errors import StudyError
from modelkeep.study.closure import Closure, changed_files
from modelkeep.study.record import Record, State, is_alive
from modelkeep.study.schema import FORMAT, create_tables, keep_result, migrate, store_closure
from modelkeep.study.trials import Trial, canonical

DEFAULT_PATH = Path("modelkeep-out/ledger.sqlite3")
_PATIENCE = 30.0  # seconds that a change waits for those of other runners


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
            if version > FORMAT:
                raise StudyError(
                    f"The ledger '{path}' has format {version}; this version of modelkeep reads formats 1 to {FORMAT}."
                )
            refused.pop_all()

    def _prepare(self) -> int:
        write_ahead(self._database, _PATIENCE)
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("PRAGMA foreign_keys = ON")
        with self._change():
            version: int = self._database.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                create_tables(self._database)
            elif version == 1:
                migrate(self._database, self._folders)
        return version

    @property
    def _folders(self) -> Path:
        return self.path.absolute().parent / "trials"

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
        return self._folders / trial.identity

    def remember(self, name: str, trials: Sequence[Trial]) -> None:
        """Keep the study, so that it can be shown and resumed by its name; the trials replace earlier ones."""
        with self._change():
            self._database.execute(
                "INSERT INTO studies VALUES (?, ?) ON CONFLICT DO UPDATE SET updated = excluded.updated",
                (name, time.time()),
            )
            self._database.execute("DELETE FROM study_trials WHERE study = ?", (name,))
            for position, trial in enumerate(trials):
                self._database.execute(
                    "INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET home = excluded.home",
                    (
                        trial.identity,
                        trial.name,
                        trial.version,
                        canonical(trial.parameters),
                        str(trial.seed),
                        trial.home,
                    ),
                )
                self._database.execute("INSERT INTO study_trials VALUES (?, ?, ?)", (name, position, trial.identity))

    def studies(self) -> list[str]:
        """The names of the studies, the one run last at the end."""
        return [row["name"] for row in self._database.execute("SELECT name FROM studies ORDER BY updated")]

    def claim(self, trial: Trial, runner: str, replacing: int | None = None) -> int | Literal["done", "busy"]:
        """Start an attempt and give its number to `runner`; or say that the trial is done, or runs somewhere else.

        A trial with a result is done, unless its result is that of the attempt `replacing`.
        """
        identity, now = trial.identity, time.time()
        with self._change():
            result = self._database.execute("SELECT attempt FROM results WHERE trial = ?", (identity,)).fetchone()
            if result is not None and result["attempt"] != replacing:
                return "done"
            running = self._database.execute(
                "SELECT * FROM attempts WHERE trial = ? AND state = 'running'", (identity,)
            ).fetchone()
            if running is not None:
                if is_alive(running, now):
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
        """End what `runner` has not finished: the study was stopped."""
        with self._change():
            self._database.execute(
                "UPDATE attempts SET state = 'interrupted', ended = ? WHERE runner = ? AND state = 'running'",
                (time.time(), runner),
            )

    def finish(self, attempt: int, value: str, seconds: float, code: Closure) -> bool:
        """Record the value (JSON), the code that made it and the end of the attempt together.

        False where the attempt was not ours any more.

        An attempt that another run took for lost may still come to its end; its value is dropped, because the
        other run records the same trial.
        """
        with self._change():
            ours = self._end(attempt, "done", seconds)
            if ours:
                keep_result(self._database, attempt, value, store_closure(self._database, code))
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
        rows = self._rows(name)
        codes = {row["code"] for row in rows} - {None}
        changed = {code: self._changed_files(code) for code in codes}
        return [_record(row, changed.get(row["code"], ())) for row in rows]

    def counts(self, name: str) -> Counter[State]:
        """How many trials of the study are in each state."""
        return Counter(_record(row, ()).state for row in self._rows(name))

    def find_outdated(self, name: str) -> dict[str, int]:
        """The results of the study that other code made: by trial, the attempt that made it."""
        rows = self._rows(name)
        old = {code for code in {row["code"] for row in rows} - {None} if self._changed_files(code)}
        return {row["identity"]: row["made_by"] for row in rows if row["code"] in old}

    def _changed_files(self, code: str) -> tuple[str, ...]:
        (modules,) = self._database.execute("SELECT modules FROM closures WHERE hash = ?", (code,)).fetchone()
        return changed_files(json.loads(modules))

    def _rows(self, name: str) -> list[sqlite3.Row]:
        rows = self._database.execute(
            """
            SELECT trials.*, value, code, results.attempt AS made_by, made.seconds AS made_seconds,
                   last.state, last.error, last.host, last.pid, last.started, last.heartbeat, last.seconds,
                   (SELECT count(*) FROM attempts WHERE trial = trials.identity) AS attempts
            FROM study_trials JOIN trials ON trials.identity = study_trials.trial
            LEFT JOIN results ON results.trial = trials.identity
            LEFT JOIN attempts AS made ON made.id = results.attempt
            LEFT JOIN attempts AS last ON last.id = (SELECT max(id) FROM attempts WHERE trial = trials.identity)
            WHERE study = ? ORDER BY position
            """,
            (name,),
        ).fetchall()
        if not rows:
            known = ", ".join(self.studies()) or "none yet"
            raise StudyError(f"The ledger '{self.path}' has no study '{name}'. Its studies: {known}.")
        return rows


def _record(row: sqlite3.Row, changed: tuple[str, ...]) -> Record:
    state: State = row["state"] or "missing"
    done = row["value"] is not None
    # A reader does not write; the next run marks it so.
    if state == "running" and not is_alive(row, time.time()):
        state = "lost"
    return Record(
        identity=row["identity"],
        name=row["name"],
        version=row["version"],
        parameters=json.loads(row["parameters"]),
        seed=int(row["seed"]),
        home=row["home"],
        state="done" if done else state,
        attempts=row["attempts"],
        seconds=row["made_seconds"] if done else row["seconds"],
        value=json.loads(row["value"]) if done else None,
        error=row["error"],
        changed_files=changed,
    )
