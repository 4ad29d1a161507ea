"""Caller: asks one server over HTTP/1.1, on connections that stay open.

By hand on httptools: in front of MLServer httpcore took 2.4 ms of a core for a request that this makes in 0.45, and a
gateway should add little to the server behind it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import httptools

# Seconds after which a connection is not used again: uvicorn would close it after 5, just as we write to it.
_IDLE = 2.0


class NotReached(ConnectionError):
    """The server is away, too slow, or does not speak HTTP as it should."""


@dataclass
class Reply:
    """What the server said; names of headers in small letters."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    content: bytes = b""


class Caller:
    """Requests to the server at `url`, each answered whole within `timeout` seconds and `most` bytes, or `NotReached`.

    At most `connections` are open at a time. No redirect is followed, no proxy used.
    """

    def __init__(self, url: str, *, timeout: float, connections: int, most: int) -> None:
        parts = urlsplit(url)
        self._host, self._prefix = parts.hostname or "", parts.path.rstrip("/")
        secure = parts.scheme == "https"
        self._tls = ssl.create_default_context() if secure else None
        self._port = parts.port or (443 if secure else 80)
        self._name = parts.netloc.rpartition("@")[2]
        self._timeout, self._most = timeout, most
        self._room = asyncio.Semaphore(connections)
        self._idle: list[_Connection] = []

    async def ask(
        self, method: str, path: str, content: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Reply:
        """One request. It is sent again, once, where an idle connection turns out to have ended."""
        lines = [f"{method} {self._prefix}{path} HTTP/1.1", f"Host: {self._name}", f"Content-Length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        asked = "\r\n".join([*lines, "", ""]).encode() + content
        try:
            async with asyncio.timeout(self._timeout), self._room:
                while connection := self._open():
                    try:
                        return await self._exchange(connection, asked)
                    except NotReached:
                        if connection.heard:  # it was alive, so the failure is not that of an old connection
                            raise
                return await self._exchange(await self._connect(), asked)
        except (OSError, TimeoutError) as error:
            raise NotReached(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().end()

    def _open(self) -> _Connection | None:
        """A connection that was used a moment ago; older ones are closed."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and time.monotonic() - connection.used < _IDLE:
                return connection
            connection.end()
        return None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: _Connection(self._most), self._host, self._port, ssl=self._tls
        )
        return connection

    async def _exchange(self, connection: _Connection, asked: bytes) -> Reply:
        try:
            reply = await connection.ask(asked)
        except BaseException:
            connection.end()  # half an answer may still come
            raise
        if connection.usable:
            self._idle.append(connection)
        else:
            connection.end()
        return reply


class _Connection(asyncio.Protocol):
    """One connection: a request at a time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.usable = True
        self.heard = False  # whether something of the present answer came
        self.used = time.monotonic()
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Reply] | None = None

    async def ask(self, asked: bytes) -> Reply:
        assert self._transport is not None
        self._reply, self._parts, self._size, self.heard = Reply(), list[bytes](), 0, False
        self._parser = httptools.HttpResponseParser(self)
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(asked)
        return await self._waiting

    def end(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls.
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is none by its type

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        self._fail("the connection ended before the answer did")

    def data_received(self, data: bytes) -> None:
        self.heard = True
        self._size += len(data)
        if self._waiting is None or self._waiting.done() or self._size > self.most:
            self._fail(f"the answer has more than {self.most} bytes, or it was not asked for")
            self.end()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"that is not HTTP: {error}")
            self.end()

    # What the parser calls.
    def on_header(self, name: bytes, value: bytes) -> None:
        self._reply.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        self._reply.status = self._parser.get_status_code()
        if self._reply.status < 200:  # "go on", which we never wait for
            return
        self._reply.content = b"".join(self._parts)
        self.usable = self.usable and self._parser.should_keep_alive()
        self.used = time.monotonic()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(self._reply)

    def _fail(self, why: str) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(NotReached(why))
