"""Where a gateway keeps what it must not forget: SQLite in one file, or PostgreSQL for many replicas."""

from __future__ import annotations

from modelkeep.core.errors import GuardError
from modelkeep.guard.store.store import Event, Lease, Principal, Store

__all__ = ["Event", "Lease", "Principal", "Store", "open_store"]


def open_store(url: str) -> Store:
    """The store at `sqlite:///path/to/file` or `postgresql://user@host/database`; made where it does not exist.

    As is usual, three slashes begin a path from here and four a path from the root: `sqlite:////var/lib/guard.db`.

    >>> open_store("mysql://host/db")
    Traceback (most recent call last):
    modelkeep.core.errors.GuardError: A store is at sqlite:///PATH or postgresql://USER@HOST/DATABASE. Got 'mysql://…'.
    """
    scheme, mark, rest = url.partition("://")
    if mark and scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from modelkeep.guard.store.sqlite import SqliteStore

        return SqliteStore(rest[1:])
    if mark and scheme in ("postgresql", "postgres"):
        from modelkeep.guard.store.postgres import PostgresStore

        return PostgresStore(url)
    got = f"{scheme}://…" if mark else url  # the rest may hold a password
    raise GuardError(f"A store is at sqlite:///PATH or postgresql://USER@HOST/DATABASE. Got {got!r}.")
