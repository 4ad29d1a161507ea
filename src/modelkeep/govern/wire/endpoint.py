"""Endpoint: where a party meets the others, each known by a certificate that its signing key has issued."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from time import monotonic, time

from modelkeep.core.errors import GovernError, InputError, PartyUnavailable, WireError, join_names
from modelkeep.govern.identity import Identity
from modelkeep.govern.wire.certificate import RENEWED, present_certificate, require_certificate, trust_keys
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.listener import Listener
from modelkeep.govern.wire.settings import Wire
from modelkeep.govern.wire.stream import Stream

_WELCOME = b"W"  # TLS 1.3 lets a client think that all is well before the server has looked at its certificate


class Endpoint:
    """One party's end of all its connections: TLS 1.3, both sides with certificates of their signing keys.

    There is no authority that could vouch for anybody else, and addresses prove nothing: a party may move.

    Args:
        identity: Who this party is.
        members: Every party's public signing key by its name; this party's own may be among them.
        wire: How tensors cross.
        on_refused: Told in a sentence of everybody who was refused; called from threads of the endpoint's.
    """

    def __init__(
        self, identity: Identity, members: Mapping[str, str], *, wire: Wire, on_refused: Callable[[str], None]
    ) -> None:
        self._identity, self._wire, self._on_refused = identity, wire, on_refused
        self._keys = {name: key for name, key in members.items() if name != identity.name}
        self._serving: tuple[float, ssl.SSLContext] | None = None

    def connect(self, name: str, address: str, timeout: float) -> Connection:
        """Connect to a member; who answers there without a certificate of its key is refused.

        Raises:
            PartyUnavailable: That member did not answer in time, or refused this party.
        """
        if name not in self._keys:
            raise GovernError(f"'{name}' is not a member. The members: {join_names(sorted(self._keys))}.")
        expected, deadline = {name: self._keys[name]}, monotonic() + timeout
        try:
            context = self._context(ssl.PROTOCOL_TLS_CLIENT, expected)  # for a moment it needs a file
            sock = socket.create_connection(_parse_address(address), timeout)
        except OSError as error:
            raise PartyUnavailable(f"'{name}' cannot be reached at {address}: {error}.") from error
        stream = Stream(sock, context, server_side=False)
        try:
            require_certificate(stream.handshake(deadline), expected)
            welcome = bytearray(len(_WELCOME))
            stream.read(memoryview(welcome), deadline)
        except PartyUnavailable as error:
            stream.close()
            if isinstance(error, WireError):
                self._on_refused(f"Who answers for '{name}' at {address} was refused, or refused us. {error}")
            raise type(error)(f"No connection to '{name}' at {address}. {error}") from error
        return Connection(stream, name, self._wire)

    def listen(self, address: str) -> Listener:
        """Listen at 'host:port' (port 0: any free one) for the other members."""

        def meet(stream: Stream, deadline: float) -> Connection:
            name = require_certificate(stream.handshake(deadline), self._keys)
            stream.write([_WELCOME], deadline)
            return Connection(stream, name, self._wire)

        host, port = _parse_address(address)
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
            sock = socket.create_server((host, port), family=family, backlog=128)
        except OSError as error:
            raise GovernError(f"Listening at {address} is not possible: {error}.") from error
        return Listener(sock, lambda sock: Stream(sock, self._serve(), server_side=True), meet, self._on_refused)

    def _serve(self) -> ssl.SSLContext:
        """What this party serves with; after some time with a new certificate."""
        now = time()
        if self._serving is None or not 0 <= now - self._serving[0] < RENEWED.total_seconds():
            context = self._context(ssl.PROTOCOL_TLS_SERVER, self._keys)
            context.num_tickets = 0  # no session is resumed: each connection proves both identities anew
            self._serving = (now, context)
        return self._serving[1]

    def _context(self, protocol: int, trusted: Mapping[str, str]) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        present_certificate(context, self._identity)
        trust_keys(context, trusted)
        return context


def _parse_address(address: str) -> tuple[str, int]:
    """Host and port.

    >>> _parse_address("127.0.0.1:7000"), _parse_address("[::1]:7000")
    (('127.0.0.1', 7000), ('::1', 7000))
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"An address is 'host:port', such as 'alice.example.org:7000'. Got {address!r}.")
    return host.removeprefix("[").removesuffix("]"), int(port)
