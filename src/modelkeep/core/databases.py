"""SQLite files that several processes open at once, and the write-ahead log that they would race for."""

from __future__ import annotations

import sqlite3
import time


def write_ahead(database: sqlite3.Connection, patience: float) -> bool:
    """Let the database keep a write-ahead log; False where its disk cannot (a network's).

    This one statement does not wait for a lock as all others do, so we do, for `patience` seconds.
    """
    until = time.monotonic() + patience
    while True:
        try:
            mode: str = database.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return mode == "wal"
