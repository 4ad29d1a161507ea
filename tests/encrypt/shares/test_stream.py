"""The words of a stream are AES-256 in counter mode, block by block."""

from __future__ import annotations

import hashlib
import hmac

import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from modelkeep.core.errors import InputError
from modelkeep.encrypt.shares.stream import Stream, derive_key, draw_key, draw_rows


def test_the_words_are_encrypted_counters() -> None:
    key = bytes(range(32))
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    expected = b"".join(block.update(number.to_bytes(16, "big")) for number in range(5))
    stream = Stream(key)
    words = torch.cat([stream.words((3,)), stream.words((2, 2)).flatten(), stream.words((0,)), stream.words((3,))])
    assert words.numpy().tobytes() == expected


def test_rows_of_several_streams_are_their_own_words() -> None:
    keys = [draw_key() for _ in range(3)]
    rows = draw_rows([Stream(key) for key in keys], (5, 7))
    for row, key in zip(rows, keys, strict=True):
        assert torch.equal(row, Stream(key).words((5, 7)))


def test_keys() -> None:
    assert derive_key(b"s", "label") == hmac.new(b"s", b"label", hashlib.sha256).digest()
    with pytest.raises(InputError, match=r"32 bytes\. Got 3"):
        Stream(b"abc")
