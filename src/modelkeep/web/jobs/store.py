"""Store: the jobs in a SQLite file, so that they are known after a restart."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from modelkeep.core.databases import write_ahead
from modelkeep.web.jobs.job import Job

_PATIENCE = 10.0  # seconds that a change waits for another one
_TABLE = """
CREATE TABLE IF NOT EXISTS jobs (
  id INTEGER PRIMARY KEY, words TEXT NOT NULL, line TEXT NOT NULL, out TEXT NOT NULL, started REAL NOT NULL,
  pid INTEGER NOT NULL, born REAL NOT NULL, ended REAL, code INTEGER
)
"""


class JobStore:
    """The file at `path`. Each call opens it anew: requests come from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._open() as database:
            write_ahead(database, _PATIENCE)
            database.execute(_TABLE)

    def next_id(self) -> int:
        """A number that no job has had."""
        with self._open() as database:
            found = database.execute("SELECT COALESCE(MAX(id), 0) + 1 FROM jobs").fetchone()
        return int(found[0])

    def add(self, job: Job) -> None:
        """Keep a new job."""
        row = (job.id, json.dumps(job.words), job.line, job.out, job.started, job.pid, job.born, job.ended, job.code)
        with self._open() as database:
            database.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def end(self, number: int, ended: float, code: int | None) -> None:
        """Keep how a job ended; the first word counts."""
        with self._open() as database:
            database.execute(
                "UPDATE jobs SET ended = ?, code = ? WHERE id = ? AND ended IS NULL", (ended, code, number)
            )

    def all(self) -> list[Job]:
        """All jobs, the newest first."""
        with self._open() as database:
            rows = database.execute("SELECT * FROM jobs ORDER BY id DESC").fetchall()
        return [Job(row[0], tuple(json.loads(row[1])), *row[2:]) for row in rows]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=_PATIENCE)) as database, database:
            yield database
