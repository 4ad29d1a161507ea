"""Connection: messages to and from one other party, whose identity is proved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from threading import Lock
from time import monotonic
from typing import Any

import torch
from torch import Tensor

from modelkeep.core.errors import PartyUnavailable, WireError
from modelkeep.govern.wire.compression import unpack
from modelkeep.govern.wire.message import PRELUDE, Coming, Message, frame, octets, read_header, read_prelude
from modelkeep.govern.wire.settings import Wire
from modelkeep.govern.wire.stream import Stream

Admits = Callable[[str, str, Mapping[str, Any], int], bool]
"""Whether a party may send tensors: its name, the kind and the values of the message, and their bytes in memory."""

_SKIPPED_AT_ONCE = 256 * 1024


class Connection:
    """Messages both ways: any thread may send while another one receives.

    Args:
        stream: Encrypted, and after its handshake.
        peer: The name of the party at the other end, as its certificate proved it.
        wire: How tensors cross.
    """

    def __init__(self, stream: Stream, peer: str, wire: Wire) -> None:
        self.peer = peer
        self.wire = wire
        self.tensor_bytes_sent = self.tensor_bytes_received = 0
        self.admits: Admits = lambda peer, kind, header, size: True
        self._stream, self._counting = stream, Lock()

    @property
    def sent_bytes(self) -> int:
        """Bytes handed to the network so far, headers and encryption included."""
        return self._stream.sent_bytes

    @property
    def received_bytes(self) -> int:
        """Bytes that came from the network so far, headers and encryption included."""
        return self._stream.received_bytes

    def send(self, message: Message) -> None:
        """Send it whole within the agreement's deadline; the tensors may be changed as soon as this returns.

        Raises:
            PartyUnavailable: The other side broke off or takes nothing; the connection is of no use any more.
            GovernError: The message is larger than the agreement allows; nothing was sent.
        """
        stretches = frame(message, self.wire)
        try:
            self._stream.write(stretches, monotonic() + self.wire.deadline)
        except PartyUnavailable as error:
            raise PartyUnavailable(f"'{message.kind}' could not be sent to '{self.peer}'. {error}") from error
        with self._counting:
            self.tensor_bytes_sent += sum(tensor.nbytes for tensor in message.tensors)

    def receive(self, timeout: float | None = None) -> Message:
        """Wait up to `timeout` seconds (without one, for ever) for a message, which then comes within the deadline.

        Raises:
            PartyUnavailable: No message began in time, after which one may go on waiting, or the other side broke off.
            WireError: What came is not a valid message; the connection cannot be used any more.
        """
        try:
            return self._receive(float("inf") if timeout is None else monotonic() + timeout)
        except WireError as error:
            self._stream.shut()
            raise WireError(f"What '{self.peer}' sends is refused. {error}") from error
        except PartyUnavailable as error:
            raise PartyUnavailable(f"No message from '{self.peer}'. {error}") from error

    def close(self) -> None:
        """End the connection; a thread that waits in `receive` or `send` is told so."""
        self._stream.close()

    def _receive(self, begins: float) -> Message:
        while True:
            message = self._receive_one(begins)
            if message is not None:
                return message

    def _receive_one(self, begins: float) -> Message | None:
        """The next message; None where its tensors are not admitted. They are skipped without being kept."""
        prelude = bytearray(PRELUDE.size)
        self._stream.read(memoryview(prelude)[:1], begins, idle=True)
        deadline = monotonic() + self.wire.deadline
        self._stream.read(memoryview(prelude)[1:], deadline)
        length, rest = read_prelude(prelude, self.wire)
        text = self._bytes(length, deadline)
        kind, header, coming = read_header(text, rest, self.wire)
        size = sum(prod(one.shape) * one.dtype.itemsize for one in coming)
        if coming and not self.admits(self.peer, kind, header, size):
            self._skip(rest, deadline)
            return None
        tensors = tuple(self._tensor(one, deadline) for one in coming)
        self.tensor_bytes_received += sum(tensor.nbytes for tensor in tensors)
        return Message(kind, header, tensors)

    def _skip(self, length: int, deadline: float) -> None:
        """Read what is not wanted into memory that is used again and again."""
        scratch = memoryview(bytearray(min(length, _SKIPPED_AT_ONCE)))
        while length:
            part = scratch[: min(length, len(scratch))]
            self._stream.read(part, deadline)
            length -= len(part)

    def _bytes(self, length: int, deadline: float) -> bytearray:
        content = bytearray(length)
        self._stream.read(memoryview(content), deadline)
        return content

    def _tensor(self, coming: Coming, deadline: float) -> Tensor:
        """One tensor, read straight into its own memory."""
        tensor = torch.empty(coming.shape, dtype=coming.crossing)
        content = octets(tensor)
        if coming.packed:
            unpack(memoryview(self._bytes(coming.size, deadline)), content, tensor.itemsize)
        else:
            self._stream.read(content, deadline)
        if tensor.dtype is torch.bool and bool((tensor.view(torch.uint8) > 1).any()):
            raise WireError("A tensor of true and false holds something else.")
        return tensor.to(coming.dtype)
