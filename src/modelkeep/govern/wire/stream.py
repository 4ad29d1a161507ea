"""Stream: bytes both ways over one TLS connection, one thread reading while others write, all with deadlines.

OpenSSL's connections may not be used by two threads at once, and Python does not guard them (it did for a while, and a
sender then had to wait for a reader: github.com/python/cpython/pull/137588). So TLS works here on memory
(`ssl.MemoryBIO`), under a lock that is never held while the network is waited for. Some hundred kilobytes for each call
of the system also take less time than `SSLSocket`, which reads and writes record by record (16 KB).
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import Any

from modelkeep.core.errors import PartyUnavailable, WireError

_ENCRYPTED_AT_ONCE = 256 * 1024
_READ_AT_ONCE = 256 * 1024
_MOST_UNSENT = 4 * _ENCRYPTED_AT_ONCE  # a writer leaves less than half of it; more are answers that nobody fetches
_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}  # a machine that vanishes is noticed in a minute


class Stream:
    """One encrypted connection, before, during and after its handshake.

    Args:
        sock: A connected socket, which the stream takes over.
        context: The TLS side of it: certificates and who is trusted.
        server_side: Whether this side was connected to.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, *, server_side: bool) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _ALIVE.items():
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        self._socket = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self._using_tls, self._reading, self._writing = Lock(), Lock(), Lock()
        self._buffer = memoryview(bytearray(_READ_AT_ONCE))
        self.sent_bytes = self.received_bytes = 0

    def handshake(self, deadline: float) -> bytes:
        """Agree on keys, and return the other side's certificate (DER)."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._push(self._outgoing.read(), deadline)
                self._pull(deadline)
            except ssl.SSLError as error:
                with suppress(PartyUnavailable):
                    self._push(self._outgoing.read(), deadline)  # the alert, by which the other side learns why
                raise WireError(f"The TLS handshake failed: {_reason(error)}.") from error
            else:
                self._push(self._outgoing.read(), deadline)
                return self._tls.getpeercert(binary_form=True) or b""

    def write(self, stretches: Iterable[bytes | memoryview], deadline: float) -> None:
        """Send all stretches, in one go even where several threads write; what fails leaves the stream broken."""
        if not self._writing.acquire(timeout=max(deadline - monotonic(), 0)):
            raise PartyUnavailable("The other side takes nothing: a message before this one is still under way.")
        try:
            for stretch in stretches:
                rest = memoryview(stretch)
                while rest:
                    with self._using_tls:
                        rest = rest[self._tls.write(rest[:_ENCRYPTED_AT_ONCE]) :]
                        enough = self._outgoing.pending >= _ENCRYPTED_AT_ONCE
                    if enough:  # the other side may begin to decrypt
                        self._flush(deadline)
            self._flush(deadline)
        except ssl.SSLError as error:
            raise self._break(PartyUnavailable(f"The connection broke: {_reason(error)}.")) from error
        finally:
            self._writing.release()

    def read(self, into: memoryview, deadline: float, *, idle: bool = False) -> None:
        """Fill all of `into`. What fails leaves the stream broken, except for an `idle` wait in which nothing came."""
        with self._reading:
            rest = self._decrypt(into)
            while rest:
                self._pull(deadline, breaks=not (idle and len(rest) == len(into)))
                rest = self._decrypt(rest)

    def close(self) -> None:
        """End the connection; who waits on it, in any thread, is told so."""
        self.shut()
        with self._reading, self._writing:  # both were woken; the number of a closed socket must not be used
            self._socket.close()

    def shut(self) -> None:
        """Let nothing more through, but keep the socket, which other threads may be waiting on."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _decrypt(self, into: memoryview) -> memoryview:
        """Fill `into` with what has come, and return what is left of it. TLS gives one record at a time (16 KB)."""
        decrypt: Any = self._tls.read  # with a buffer: how many bytes
        try:
            with self._using_tls:
                while into:
                    read = decrypt(len(into), into)
                    if not read:  # a notice that nothing more follows; after it, TLS never has to wait for anything
                        raise self._break(PartyUnavailable("The other side closed the connection."))
                    into = into[read:]
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise self._break(WireError(f"What arrived is damaged: {_reason(error)}.")) from error
        return into

    def _break(self, error: PartyUnavailable) -> PartyUnavailable:
        self.shut()
        return error

    def _flush(self, deadline: float) -> None:
        with self._using_tls:
            encrypted = self._outgoing.read()
        self._push(encrypted, deadline)

    def _push(self, encrypted: bytes, deadline: float) -> None:
        """Hand all of it to the network."""
        rest = memoryview(encrypted)
        while rest:
            try:
                sent = self._socket.send(rest)
            except BlockingIOError:
                if not self._wait(select.POLLOUT, deadline):
                    raise self._break(PartyUnavailable("The other side takes nothing.")) from None
            except OSError as error:
                raise self._break(PartyUnavailable(f"The connection broke: {error.strerror}.")) from error
            else:
                rest = rest[sent:]
                self.sent_bytes += sent

    def _pull(self, deadline: float, *, breaks: bool = True) -> None:
        """Give TLS what the network has, or wait for it."""
        while True:
            try:
                received = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                if not self._wait(select.POLLIN, deadline):
                    error = PartyUnavailable("Nothing came from the other side in time.")
                    raise self._break(error) if breaks else error from None
            except OSError as error:
                raise self._break(PartyUnavailable(f"The connection broke: {error.strerror}.")) from error
            else:
                break
        if not received:
            raise self._break(PartyUnavailable("The other side closed the connection."))
        self.received_bytes += received
        with self._using_tls:
            self._incoming.write(self._buffer[:received])
            unsent = self._outgoing.pending
        if unsent > _MOST_UNSENT:  # TLS answers each wish for new keys by itself; a flood of them would fill the memory
            raise self._break(PartyUnavailable("The other side asks for new keys again and again."))

    def _wait(self, event: int, deadline: float) -> bool:
        """Wait until the socket can be read from or written to; false at the deadline."""
        poll = select.poll()
        poll.register(self._socket, event)
        remaining = deadline - monotonic()
        return remaining > 0 and bool(poll.poll(None if remaining == float("inf") else remaining * 1000))


def _reason(error: ssl.SSLError) -> str:
    """OpenSSL's words for it, such as 'certificate verify failed'."""
    return (error.reason or str(error)).lower().replace("_", " ")
