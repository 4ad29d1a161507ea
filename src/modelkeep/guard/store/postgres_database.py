"""A PostgreSQL server: connected to again and again, its tables made once, and its errors told in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, LiteralString, TypeVar

from modelkeep.core.errors import GuardError, MissingExtra, StoreUnavailable
from modelkeep.guard.store.connections import Connections
from modelkeep.guard.store.schema import POSTGRES, check_version

try:
    import psycopg
except ImportError as missing:
    raise MissingExtra("guard", "psycopg[binary]", "A store in PostgreSQL") from missing

T = TypeVar("T")
Row = tuple[Any, ...]
Connection = psycopg.Connection[Row]
PATIENCE = 10  # seconds that a statement may take, and that one may wait for a connection
_CONNECTIONS = 8
_DEFAULTS = {
    "connect_timeout": 5,
    "keepalives_idle": 5,  # a server that vanished without a word is noticed after about ten seconds
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "target_session_attrs": "read-write",  # of several servers the one that takes writes
    "client_encoding": "utf8",
    "application_name": "modelkeep guard",
}
# What our promises rest on, whatever the server's defaults are; a stricter commit (remote_apply) stays.
SESSION: LiteralString = f"""
SET statement_timeout = '{PATIENCE}s';
SET idle_in_transaction_session_timeout = '{PATIENCE}s';
SET default_transaction_isolation = 'read committed';
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');
"""
LOCK = 0x6D6F646B  # "modk": of replicas that start at once, one makes the tables


class PostgresDatabase:
    """Transactions in the database at `dsn`, a connection string of libpq such as `postgresql://user@host/database`."""

    def __init__(self, dsn: str) -> None:
        try:
            self._options: dict[str, Any] = _DEFAULTS | psycopg.conninfo.conninfo_to_dict(dsn)
        except psycopg.ProgrammingError:  # its message may quote the address, and with it the password
            raise GuardError(
                "This is not the address of a PostgreSQL database: postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
                "with %40 for an @ in the password."
            ) from None
        named = [f"{part} {self._options[part]}" for part in ("host", "port", "dbname") if part in self._options]
        self._where = f"The PostgreSQL store ({', '.join(named) or 'default address'})"  # never the password
        self._connections = Connections(self._connect, most=_CONNECTIONS, patience=PATIENCE)
        try:
            self.run(self._prepare)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def ask(self, statement: LiteralString, values: Sequence[object] | Mapping[str, object] = ()) -> list[Row]:
        """One statement, which is one transaction and one round trip."""
        return self.run(lambda db: db.execute(statement, values, binary=True).fetchall())

    def run(self, work: Callable[[Connection], T]) -> T:
        """Do `work` on a connection; once more on a new one where it broke. Its errors become sentences."""
        again = True
        while True:
            try:
                with self._connections.use() as db:
                    return work(db)
            except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction) as error:
                self._connections.drop()
                slow = isinstance(error, psycopg.errors.QueryCanceled | psycopg.errors.ConnectionTimeout)
                if not again or slow:
                    raise StoreUnavailable(f"{self._where} cannot be used now: {_read_message(error)}.") from error
                again = False
            except psycopg.Error as error:
                raise GuardError(f"{self._where} refused what was asked: {_read_message(error)}.") from error

    def _connect(self) -> Connection:
        db = psycopg.connect(**self._options, autocommit=True)
        db.execute(SESSION)
        return db

    def _prepare(self, db: Connection) -> None:
        """Make the tables where there are none; of replicas that start at once, one does."""
        # Read from the table, for names that are looked up (to_regclass) come from a cache that may miss the others'.
        exists: LiteralString = (
            "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = 'modelkeep' AND tablename = 'version')"
        )
        if db.execute(exists).fetchone() == (False,):
            with db.transaction():
                db.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                if db.execute(exists).fetchone() == (False,):
                    db.execute(POSTGRES)
        found = db.execute("SELECT coalesce(max(version), 0) FROM modelkeep.version").fetchone()
        assert found is not None
        check_version(found[0], self._where)


def _read_message(error: psycopg.Error) -> str:
    """The first line of the server's words, without a full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
