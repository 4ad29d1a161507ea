"""Messages: a header in JSON and parts in bytes, with a code that shows any change on the way."""

from __future__ import annotations

import hmac
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from typing import Any

from modelkeep.core.errors import EncryptError

MAGIC = b"MKE1"
_LENGTH = struct.Struct("!I")
LARGEST_HEADER = 1 << 20
MOST_PARTS = 4096  # as many values as a layer may have; a header could name half a million parts of no bytes
CODE_BYTES = 32


@dataclass(frozen=True)
class Message:
    """What is said, and the bytes that go with it."""

    header: Mapping[str, Any]
    parts: tuple[bytes, ...] = ()


def pack(header: Mapping[str, Any], parts: Sequence[bytes] = (), key: bytes | None = None) -> bytes:
    """The bytes of a message; with a key, an HMAC-SHA256 of all of them stands at the end.

    >>> unpack(pack({"a": 1}, [b"xy"])).parts
    (b'xy',)
    """
    told = json.dumps({**header, "parts": [len(part) for part in parts]}).encode()
    content = b"".join((MAGIC, _LENGTH.pack(len(told)), told, *parts))
    return content if key is None else content + _code(key, content)


def unpack(content: bytes, key: bytes | None = None) -> Message:
    """The message, or an EncryptError: cut short, too long, not a message, or changed on the way."""
    if key is not None:
        content, code = content[:-CODE_BYTES], content[-CODE_BYTES:]
        if not hmac.compare_digest(_code(key, content), code):
            raise EncryptError("The message was changed on the way, or belongs to another session. It is not used.")
    start = len(MAGIC) + _LENGTH.size
    if content[: len(MAGIC)] != MAGIC or len(content) < start:
        raise EncryptError("This is not a message of modelkeep encrypt. Ask with `modelkeep encrypt ask`.")
    (length,) = _LENGTH.unpack(content[len(MAGIC) : start])
    if length > min(LARGEST_HEADER, len(content) - start):
        raise EncryptError("The header of the message is longer than the message.")
    try:
        header = json.loads(content[start : start + length])
        sizes = [int(size) for size in header.pop("parts")]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EncryptError("The header of the message is not the JSON that it must be.") from error
    if len(sizes) > MOST_PARTS:
        raise EncryptError(f"A message has at most {MOST_PARTS:,} parts. This one has {len(sizes):,}.")
    rest = content[start + length :]
    if min(sizes, default=0) < 0 or sum(sizes) != len(rest):
        raise EncryptError(f"The message has {len(rest)} bytes in its parts where its header says {sum(sizes)}.")
    ends = accumulate(sizes)
    return Message(header, tuple(rest[end - size : end] for size, end in zip(sizes, ends, strict=True)))


def _code(key: bytes, content: bytes) -> bytes:
    return hmac.new(key, content, sha256).digest()
