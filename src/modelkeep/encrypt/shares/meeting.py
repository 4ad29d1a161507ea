"""Meeting: what the three parties and the dealer agree on before they compute, and how they come together over TLS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from time import monotonic

import torch
from pydantic import TypeAdapter
from torch import Tensor

from modelkeep.core.errors import InputError, WireError
from modelkeep.core.signing import canonical
from modelkeep.encrypt.shares.computation import PARTIES
from modelkeep.encrypt.shares.keys import Keys
from modelkeep.encrypt.shares.programs import Plan
from modelkeep.encrypt.shares.ring import ShareRing
from modelkeep.encrypt.shares.stream import KEY_BYTES
from modelkeep.encrypt.shares.wire_channel import WireChannel, WireToLast, receive_exactly
from modelkeep.govern.identity import Identity
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.endpoint import Endpoint
from modelkeep.govern.wire.listener import Listener
from modelkeep.govern.wire.message import Message
from modelkeep.govern.wire.settings import Wire


@dataclass(frozen=True)
class Meeting:
    """A computation that four roles agree on: who they are by their signing keys, and what is computed; no secret.

    `parties` are the names of the owner of the model, the owner of the data and the third one; a session's name is used
    once. `public_keys` (hexadecimal) are by name.
    """

    session: str
    parties: tuple[str, str, str]
    dealer: str
    public_keys: Mapping[str, str]
    plan: Plan
    ring: ShareRing = field(default_factory=ShareRing)
    wire: Wire = field(default_factory=Wire)

    def __post_init__(self) -> None:
        names = [*self.parties, self.dealer]
        if len(set(names)) != PARTIES + 1 or set(names) != set(self.public_keys):
            raise InputError(
                f"A meeting has three parties and another one that deals, each with a certificate: {names}."
            )
        if len(set(self.public_keys.values())) != PARTIES + 1:
            raise InputError("Two roles of a meeting have the same key: one who plays both learns the secrets.")

    @property
    def digest(self) -> str:
        """The SHA-256 of all of it: only who agrees on everything computes together."""
        plain = TypeAdapter(Meeting).dump_python(self, mode="json")
        return sha256(canonical(plain)).hexdigest()

    def open_endpoint(self, identity: Identity) -> Endpoint:
        """Where this role meets the others."""
        return Endpoint(identity, self.public_keys, wire=self.wire, on_refused=lambda sentence: None)


def join_as_party(
    meeting: Meeting,
    identity: Identity,
    listener: Listener,
    addresses: Mapping[str, str],
    *,
    seed: int | None = None,
) -> tuple[WireChannel, Keys]:
    """Meet the two other parties and the dealer: the channel to them, and the keys that this party shares with each.

    A party connects to those that stand before it, and the dealer connects to all. Of two parties the earlier one draws
    their keys; the dealer draws those of the masks. A `seed` determines the keys, for tests: it protects nothing.
    """
    place = meeting.parties.index(identity.name)
    endpoint, deadline = meeting.open_endpoint(identity), monotonic() + meeting.wire.deadline
    drawn = Keys.draw() if seed is None else Keys.from_seed(seed)
    connections: dict[str, Connection] = {}
    try:
        for name in meeting.parties[:place]:
            connections[name] = endpoint.connect(name, addresses[name], meeting.wire.deadline)
        while len(connections) < PARTIES:
            connection = listener.accept(max(0.0, deadline - monotonic()))
            connections[connection.peer] = connection
        keys = _meet_each(meeting, place, connections, drawn)
    except BaseException:
        for connection in connections.values():
            connection.close()
        raise
    to_parties = {meeting.parties.index(name): c for name, c in connections.items() if name != meeting.dealer}
    return WireChannel(meeting.digest, place, to_parties, connections[meeting.dealer]), keys


def join_as_dealer(
    meeting: Meeting, identity: Identity, addresses: Mapping[str, str], *, seed: int | None = None
) -> tuple[WireToLast, Keys]:
    """Meet the three parties, give each the key of its masks, and keep the line to the last one."""
    if identity.name != meeting.dealer:
        raise InputError(f"'{identity.name}' does not deal in this meeting; '{meeting.dealer}' does.")
    endpoint = meeting.open_endpoint(identity)
    keys = (Keys.draw() if seed is None else Keys.from_seed(seed)).of_dealer
    connections: list[Connection] = []
    try:
        for place, name in enumerate(meeting.parties):
            connections.append(endpoint.connect(name, addresses[name], meeting.wire.deadline))
            _send_keys(meeting, connections[-1], [keys.masks[place]])
        for connection in connections:
            _receive_keys(meeting, connection, 0)
    except BaseException:
        for connection in connections:
            connection.close()
        raise
    return WireToLast(meeting.digest, connections), keys


def _meet_each(meeting: Meeting, place: int, connections: Mapping[str, Connection], drawn: Keys) -> Keys:
    """Say to all which meeting this is, then hear it from all, so that no role waits for one that waits for it."""
    pairs, expected = {}, {}
    for name, connection in connections.items():
        other = None if name == meeting.dealer else meeting.parties.index(name)
        pairs[name] = [] if other is None else sorted([(place, other), (other, place)])
        draws = other is not None and place < other
        expected[name] = 0 if draws else max(len(pairs[name]), 1)
        _send_keys(meeting, connection, [drawn.inputs[pair] for pair in pairs[name]] if draws else [])
    masks: dict[int, bytes] = {}
    inputs: dict[tuple[int, int], bytes] = {}
    for name, connection in connections.items():
        keys = _receive_keys(meeting, connection, expected[name])
        if name == meeting.dealer:
            (masks[place],) = keys
        else:
            inputs.update(zip(pairs[name], keys or [drawn.inputs[pair] for pair in pairs[name]], strict=True))
    return Keys(masks, inputs)


def _send_keys(meeting: Meeting, connection: Connection, keys: list[bytes]) -> None:
    connection.send(Message("meet", {"session": meeting.digest}, tuple(_as_tensor(key) for key in keys)))


def _receive_keys(meeting: Meeting, connection: Connection, count: int) -> list[bytes]:
    """The keys that the other side draws; another meeting is refused before any share crosses."""
    message = receive_exactly(connection, "meet", {"session": meeting.digest}, most=count * KEY_BYTES)
    if [(tensor.dtype, tuple(tensor.shape)) for tensor in message.tensors] != [(torch.uint8, (KEY_BYTES,))] * count:
        raise WireError(f"'{connection.peer}' did not send the {count} keys that it should.")
    return [bytes(tensor.numpy()) for tensor in message.tensors]


def _as_tensor(key: bytes) -> Tensor:
    return torch.frombuffer(bytearray(key), dtype=torch.uint8)
