"""Connections to a database that are opened when needed, kept for the next caller, thrown away after trouble."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from modelkeep.core.errors import GuardError, StoreUnavailable


class Closable(Protocol):
    """All that is asked of a connection here."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class Connections(Generic[C]):
    """At most `most` connections at once; who finds all of them busy waits, but not for ever."""

    def __init__(self, connect: Callable[[], C], *, most: int, patience: float) -> None:
        self._connect = connect
        self._free = threading.BoundedSemaphore(most)
        self._most, self._patience = most, patience
        self._idle: list[C] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def use(self) -> Iterator[C]:
        """A connection for one caller. After an exception it is closed: its state is unknown."""
        if not self._free.acquire(timeout=self._patience):
            raise StoreUnavailable(
                f"All {self._most} connections to the store were busy for {self._patience:g} seconds. Try again."
            )
        try:
            with self._lock:
                if self._closed:
                    raise GuardError("The store was closed. Open it again with open_store(url).")
                connection = self._idle.pop() if self._idle else None
            connection = connection or self._connect()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)
        finally:
            self._free.release()

    def drop(self) -> None:
        """Close those that are idle: they were opened to a server that may be gone."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close all, those in use as soon as they come back."""
        self._closed = True
        self.drop()

    def _give_back(self, connection: C) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()
