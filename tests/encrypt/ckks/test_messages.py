"""Messages come back as they were; any other bytes are refused in a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkeep.core.errors import EncryptError
from modelkeep.encrypt.ckks.messages import MAGIC, MOST_PARTS, Message, pack, unpack

KEY = bytes(range(32))


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(max_size=5).filter(lambda k: k != "parts"), st.integers()), st.lists(st.binary()))
def test_what_is_packed_is_unpacked(header: dict[str, int], parts: list[bytes]) -> None:
    for key in (None, KEY):
        assert unpack(pack(header, parts, key), key) == Message(header, tuple(parts))


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_a_message(content: bytes) -> None:
    for prefix in (b"", MAGIC, MAGIC + b"\0\0\0\x10"):
        try:
            unpack(prefix + content)
        except EncryptError:
            continue


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_one_changed_byte_shows(at: int, change: int) -> None:
    content = bytearray(pack({"number": 1}, [b"ciphertext" * 10], KEY))
    content[at % len(content)] ^= change
    with pytest.raises(EncryptError, match="changed on the way"):
        unpack(bytes(content), KEY)


def test_a_header_that_names_countless_parts_is_refused() -> None:
    """Anyone may send one, and half a million empty parts took minutes to read."""
    assert len(unpack(pack({}, [b""] * MOST_PARTS)).parts) == MOST_PARTS
    with pytest.raises(EncryptError, match=r"at most 4,096 parts. This one has 300,000"):
        unpack(pack({}, [b""] * 300_000))


@pytest.mark.parametrize("cut", [1, 40])
def test_a_cut_message_is_refused(cut: int) -> None:
    with pytest.raises(EncryptError):
        unpack(pack({}, [b"x" * 50])[:-cut])
