"""The tables of a ledger, and the step from format 1 to format 2."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from modelkeep.core.errors import StudyError
from modelkeep.study.closure import Closure
from modelkeep.study.record import is_alive, name_of_before
from modelkeep.study.trials import Trial, canonical

FORMAT = 2
_TABLES = """
CREATE TABLE trials (
    identity TEXT PRIMARY KEY, name TEXT NOT NULL, version INTEGER NOT NULL, parameters TEXT NOT NULL,
    seed TEXT NOT NULL, home TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE studies (name TEXT PRIMARY KEY, updated REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE study_trials (
    study TEXT NOT NULL REFERENCES studies, position INTEGER NOT NULL, trial TEXT NOT NULL REFERENCES trials,
    PRIMARY KEY (study, position)
) WITHOUT ROWID;
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, trial TEXT NOT NULL REFERENCES trials, state TEXT NOT NULL,
    runner TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, started REAL NOT NULL, heartbeat REAL NOT NULL,
    ended REAL, seconds REAL, error TEXT
);
CREATE INDEX attempts_by_trial ON attempts (trial);
-- The two promises, kept by the database itself: a trial runs in one place at a time, and has one result.
CREATE UNIQUE INDEX one_runner ON attempts (trial) WHERE state = 'running';
-- The code that made results, one row for all that the same code made: the hash of `modules`, which is JSON.
CREATE TABLE closures (hash TEXT PRIMARY KEY, modules TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE results (
    trial TEXT PRIMARY KEY REFERENCES trials, value TEXT NOT NULL, attempt INTEGER NOT NULL UNIQUE REFERENCES attempts,
    code TEXT NOT NULL REFERENCES closures
) WITHOUT ROWID;
-- The results that a later one replaced.
CREATE TABLE history (
    attempt INTEGER PRIMARY KEY REFERENCES attempts, trial TEXT NOT NULL REFERENCES trials, value TEXT NOT NULL,
    code TEXT NOT NULL REFERENCES closures
);
"""
_OLD_TABLES = ("results", "attempts", "study_trials", "studies", "trials")


def create_tables(database: sqlite3.Connection) -> None:
    """Make the tables of an empty ledger, inside the caller's transaction."""
    for statement in _TABLES.split(";"):
        database.execute(statement)
    database.execute(f"PRAGMA user_version = {FORMAT}")


def store_closure(database: sqlite3.Connection, code: Closure) -> str:
    """Keep the code that made a result, once; its hash, by which results name it."""
    modules = canonical(code)
    found = sha256(modules.encode()).hexdigest()
    database.execute("INSERT OR IGNORE INTO closures VALUES (?, ?)", (found, modules))
    return found


def migrate(database: sqlite3.Connection, folder: Path) -> None:
    """Bring a ledger of format 1 to this format, inside the caller's transaction; `folder` has the trials' folders.

    Format 1 knew a trial by the place of its function and the bytes of its module. Trials that differed in their code
    only become one, which has the last result.
    """
    running = database.execute("SELECT * FROM attempts WHERE state = 'running'").fetchall()
    if any(is_alive(attempt, time.time()) for attempt in running):
        raise StudyError(
            "This ledger is of an earlier version of modelkeep, which is running a study on it. "
            "Wait for its end, or stop it with Ctrl-C, and open the ledger again."
        )
    database.execute("UPDATE attempts SET state = 'lost' WHERE state = 'running'")
    old = {table: database.execute(f"SELECT * FROM {table}").fetchall() for table in _OLD_TABLES}
    for table in _OLD_TABLES:
        database.execute(f"DROP TABLE {table}")
    create_tables(database)
    database.executemany("INSERT INTO studies VALUES (?, ?)", map(tuple, old["studies"]))
    name_of = cache(name_of_before)
    now: dict[str, str] = {}  # by the identity of before
    code: dict[str, str] = {}
    for row in old["trials"]:
        own, home = name_of(row["function"])
        trial = Trial(own.name, own.version, json.loads(row["parameters"]), int(row["seed"]), home)
        now[row["identity"]] = trial.identity
        # `changed_files` compares this form by the rule of format 1.
        code[row["identity"]] = store_closure(database, {row["function"]: row["code"]})
        database.execute(
            "INSERT OR IGNORE INTO trials VALUES (?, ?, ?, ?, ?, ?)",
            (trial.identity, own.name, own.version, row["parameters"], row["seed"], home),
        )
        with suppress(OSError):
            (folder / row["identity"]).rename(folder / trial.identity)
    members = {(row["study"], now[row["trial"]]): row["position"] for row in reversed(old["study_trials"])}
    for (study, identity), position in members.items():
        database.execute("INSERT INTO study_trials VALUES (?, ?, ?)", (study, position, identity))
    for row in old["attempts"]:
        columns = dict(row) | {"trial": now[row["trial"]]}
        database.execute(f"INSERT INTO attempts VALUES ({', '.join('?' * len(columns))})", tuple(columns.values()))
    for row in sorted(old["results"], key=lambda row: row["attempt"]):
        keep_result(database, row["attempt"], row["value"], code[row["trial"]])


def keep_result(database: sqlite3.Connection, attempt: int, value: str, code: str) -> None:
    """Make the value of an attempt the result of its trial; an earlier result becomes history."""
    (trial,) = database.execute("SELECT trial FROM attempts WHERE id = ?", (attempt,)).fetchone()
    database.execute("INSERT INTO history SELECT attempt, trial, value, code FROM results WHERE trial = ?", (trial,))
    database.execute("DELETE FROM results WHERE trial = ?", (trial,))
    database.execute("INSERT INTO results VALUES (?, ?, ?, ?)", (trial, value, attempt, code))
