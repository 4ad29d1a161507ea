"""A connection that ends where a client takes too long, or says too much, before its request is whole.

Uvicorn alone waits for ever and keeps all headers that come, and this is before any key was looked at.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PATIENCE = 60.0  # seconds in which a request must have come whole
_MOST_HEAD = 1 << 16  # bytes of a request line and its headers


class Connection(HttpToolsProtocol):
    """Uvicorn's own for HTTP/1.1, with an end to patience."""

    _coming: asyncio.TimerHandle | None = None
    _head: int | None = None  # bytes that came of a head that is not complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
            if self._head > _MOST_HEAD:
                self.send_400_response("The headers are too long.")

    def on_message_begin(self) -> None:
        self._expect()
        self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._came()
        super().on_message_complete()

    def _expect(self) -> None:
        self._came()
        self._coming = self.loop.call_later(PATIENCE, self.transport.close)

    def _came(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
            self._coming = None
