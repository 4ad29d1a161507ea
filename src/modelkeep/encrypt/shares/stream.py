"""Stream: words that only those who hold its key can tell from random ones (AES-256 in counter mode)."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from modelkeep.core.errors import InputError, MissingExtra

KEY_BYTES = 32
_WORD = 8
_BLOCK = 16


class Stream:
    """An endless row of 64-bit words from a key; two streams of one key give the same words.

    Counter mode repeats no block, which a random source would: after q blocks that tells them apart with a probability
    of at most q^2 / 2^129, which is 2^-57 after a terabyte.
    """

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        except ImportError as missing:
            raise MissingExtra("encrypt", "cryptography", "Secret sharing") from missing
        if len(key) != KEY_BYTES:
            raise InputError(f"The key of a stream has {KEY_BYTES} bytes. Got {len(key)}.")
        self._cipher: Any = Cipher(algorithms.AES(key), modes.CTR(bytes(_BLOCK))).encryptor()
        self._zeros = b""

    def words(self, shape: Sequence[int]) -> Tensor:
        """The next words, in a tensor of that shape."""
        return draw_rows([self], shape)[0]

    def fill(self, room: memoryview, size: int) -> None:
        """Write the next `size` bytes; the cipher asks for a block more room than it fills."""
        if len(self._zeros) < size:
            self._zeros = bytes(size)
        self._cipher.update_into(memoryview(self._zeros)[:size], room[: size + _BLOCK])


def draw_rows(streams: Sequence[Stream], shape: Sequence[int]) -> Tensor:
    """The next words of each stream, `(streams, *shape)`, written where they stay."""
    count = prod(shape)
    if count == 0 or not streams:
        return torch.empty((len(streams), *shape), dtype=torch.int64)
    size = count * _WORD
    room = bytearray(len(streams) * size + _BLOCK)
    for row, stream in enumerate(streams):
        stream.fill(memoryview(room)[row * size :], size)
    return torch.frombuffer(room, dtype=torch.int64, count=len(streams) * count).view(len(streams), *shape)


def draw_key() -> bytes:
    """A new key from the operating system's source."""
    return secrets.token_bytes(KEY_BYTES)


def derive_key(secret: bytes, label: str) -> bytes:
    """The key of that label: without the secret it cannot be told from a random one (HMAC-SHA-256)."""
    return hmac.digest(secret, label.encode(), "sha256")
