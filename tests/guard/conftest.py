"""What the tests of the guard share: one real PostgreSQL per test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from guard.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL, for all tests of this process: `.dsn`, `.restart()`, `.stop()`, `.start()`, `.kill()`.

    A test that stops it starts it again.
    """
    server = PostgresServer()
    yield server
    server.close()
