"""Endpoint: where a party meets the others, each known by exactly the certificate that the agreement names."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from time import monotonic

from modelkeep.core.errors import GovernError, InputError, PartyUnavailable, WireError, join_names
from modelkeep.govern.identity import Identity
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.listener import Listener
from modelkeep.govern.wire.settings import Wire
from modelkeep.govern.wire.stream import Stream

_WELCOME = b"W"  # TLS 1.3 lets a client think that all is well before the server has looked at its certificate


class Endpoint:
    """One party's end of all its connections: TLS 1.3, both sides with the certificates that the agreement names.

    There is no authority that could vouch for anybody else, and addresses prove nothing: a party may move.

    Args:
        identity: Who this party is.
        members: Every party's certificate (PEM) by its name; this party's own may be among them.
        wire: How tensors cross.
        on_refused: Told in a sentence of everybody who was refused; called from threads of the endpoint's.
    """

    def __init__(
        self, identity: Identity, members: Mapping[str, str], *, wire: Wire, on_refused: Callable[[str], None]
    ) -> None:
        self._identity, self._wire, self._on_refused = identity, wire, on_refused
        self._certificates = {name: pem for name, pem in members.items() if name != identity.name}

    def connect(self, name: str, address: str, timeout: float) -> Connection:
        """Connect to a member; who answers there with any other certificate is refused.

        Raises:
            PartyUnavailable: That member did not answer in time, or refused this party.
        """
        if name not in self._certificates:
            raise GovernError(f"'{name}' is not a member. The members: {join_names(sorted(self._certificates))}.")
        context, deadline = self._context(ssl.PROTOCOL_TLS_CLIENT, [name]), monotonic() + timeout
        try:
            sock = socket.create_connection(_parse_address(address), timeout)
        except OSError as error:
            raise PartyUnavailable(f"'{name}' cannot be reached at {address}: {error}.") from error
        stream = Stream(sock, context, server_side=False)
        try:
            self._require_member(stream.handshake(deadline), [name])
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
        context = self._context(ssl.PROTOCOL_TLS_SERVER, list(self._certificates))
        context.num_tickets = 0  # no session is resumed: each connection proves both identities anew

        def meet(stream: Stream, deadline: float) -> Connection:
            name = self._require_member(stream.handshake(deadline), list(self._certificates))
            stream.write([_WELCOME], deadline)
            return Connection(stream, name, self._wire)

        host, port = _parse_address(address)
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
            sock = socket.create_server((host, port), family=family, backlog=128)
        except OSError as error:
            raise GovernError(f"Listening at {address} is not possible: {error}.") from error
        return Listener(sock, lambda sock: Stream(sock, context, server_side=True), meet, self._on_refused)

    def _context(self, protocol: int, names: list[str]) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(self._identity.certificate_file, self._identity.key_file)
        context.load_verify_locations(cadata="\n".join(self._certificates[name] for name in names))
        return context

    def _require_member(self, certificate: bytes, names: list[str]) -> str:
        """Whose certificate it is. TLS has seen that the other side has its key; here it must be the very same one."""
        for name in names:
            if ssl.PEM_cert_to_DER_cert(self._certificates[name]) == certificate:
                return name
        raise WireError("The certificate is not exactly that of a member.")


def _parse_address(address: str) -> tuple[str, int]:
    """Host and port.

    >>> _parse_address("127.0.0.1:7000"), _parse_address("[::1]:7000")
    (('127.0.0.1', 7000), ('::1', 7000))
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"An address is 'host:port', such as 'alice.example.org:7000'. Got {address!r}.")
    return host.removeprefix("[").removesuffix("]"), int(port)
