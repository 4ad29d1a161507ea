"""Listener: lets the other parties in, each handshake in its own thread, so that no party delays another."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from time import monotonic

from modelkeep.core.errors import PartyUnavailable
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.stream import Stream

HANDSHAKE = 10.0  # seconds; one takes a few milliseconds and some round trips
MOST_HANDSHAKES = 64  # at once; who comes then pushes out who has dawdled longest


class Listener:
    """Accepts connections of members; all others are refused.

    Args:
        sock: A listening socket, which the listener takes over.
        stream: Encrypts a new connection.
        meet: Does its handshake until a deadline, and says who it is.
        on_refused: Told of everybody who was refused.
    """

    def __init__(
        self,
        sock: socket.socket,
        stream: Callable[[socket.socket], Stream],
        meet: Callable[[Stream, float], Connection],
        on_refused: Callable[[str], None],
    ) -> None:
        self._socket, self._stream, self._meet, self._on_refused = sock, stream, meet, on_refused
        self._arrived: SimpleQueue[Connection | None] = SimpleQueue()
        self._closed = Event()
        self._changing = Lock()
        self._strangers: dict[Stream, Thread] = {}  # in the order in which they came
        sock.settimeout(1.0)  # where a shutdown does not wake `accept`, this does
        self.address = _write_address(sock.getsockname())
        self._thread = Thread(target=self._let_in, name=f"listener {self.address}", daemon=True)
        self._thread.start()

    def accept(self, timeout: float | None = None) -> Connection:
        """The next connection of a member."""
        try:
            connection = self._arrived.get(timeout=timeout)
        except Empty:
            raise PartyUnavailable(f"No party connected to {self.address} in time.") from None
        if connection is None:
            self._arrived.put(None)  # for other threads that wait
            raise PartyUnavailable(f"The listener at {self.address} is closed.")
        return connection

    def close(self) -> None:
        """Accept no more connections. Those that were accepted stay open; the others are closed."""
        self._closed.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        with self._changing:
            strangers = dict(self._strangers)
        for stream, thread in strangers.items():
            stream.shut()
            thread.join()
        with suppress(Empty):
            while connection := self._arrived.get_nowait():
                connection.close()
        self._arrived.put(None)

    def _let_in(self) -> None:
        while not self._closed.is_set():
            try:
                sock, address = self._socket.accept()
                stream = self._stream(sock)
            except TimeoutError:
                continue
            except OSError:  # closed, or out of descriptors, which passes when connections end
                self._closed.wait(0.1)
                continue
            thread = Thread(target=self._handshake, args=(stream, _write_address(address)), daemon=True)
            with self._changing:
                self._strangers[stream] = thread
                if len(self._strangers) > MOST_HANDSHAKES:
                    next(iter(self._strangers)).shut()
            thread.start()

    def _handshake(self, stream: Stream, address: str) -> None:
        try:
            connection = self._meet(stream, monotonic() + HANDSHAKE)
        except PartyUnavailable as error:
            stream.close()
            self._on_refused(f"{address} was refused. {error}")
        else:
            self._arrived.put(connection)
        finally:
            with self._changing:
                del self._strangers[stream]


def _write_address(address: tuple[str, int]) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
