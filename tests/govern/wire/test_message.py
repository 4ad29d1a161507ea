"""What crosses the wire: the layout of a frame, what is refused before anything is allocated, compression, digests."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
import zstandard
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from modelkeep.core.errors import GovernError, InputError, WireError
from modelkeep.govern.wire.compression import pack, unpack
from modelkeep.govern.wire.message import MAGIC, PRELUDE, Digest, Message, frame, octets, read_header, read_prelude
from modelkeep.govern.wire.settings import Wire

PLAIN = Wire()
SMALL = Wire(largest=4096)
ZSTD = Wire(compression="zstd", largest=4096)


def header(tensors: Any, **other: Any) -> bytearray:
    return bytearray(json.dumps({"kind": "activations", "header": {}, "tensors": tensors} | other).encode())


def test_a_frame_is_prelude_header_and_the_tensors_own_bytes() -> None:
    tensors = (torch.arange(6.0).reshape(2, 3).T, torch.tensor([True, False]), torch.tensor(-1, dtype=torch.int64))
    crossed = b"".join(frame(Message("activations", {"at": 2}, tensors), PLAIN))
    magic, length, rest = PRELUDE.unpack_from(crossed)
    values = json.loads(crossed[16 : 16 + length])
    expected = b"".join(tensor.numpy().astype(tensor.numpy().dtype, order="C").tobytes() for tensor in tensors)
    assert (magic, rest, crossed[16 + length :]) == (MAGIC, 24 + 2 + 8, expected)
    assert (values["kind"], values["header"]) == ("activations", {"at": 2})
    assert values["tensors"][0] == ["float32", "float32", [3, 2], 24, False]


def test_a_tensor_is_not_copied_on_its_way() -> None:
    tensor = torch.randn(4, 5)
    assert np.shares_memory(np.frombuffer(frame(Message("x", {}, (tensor,)), PLAIN)[1], np.uint8), tensor.numpy())


@pytest.mark.parametrize(
    ("message", "error", "says"),
    [
        pytest.param(Message("x", {}, (torch.zeros(1),) * 65), GovernError, "at most 64 tensors. Got 65", id="many"),
        pytest.param(Message("x", {}, (torch.zeros(513, 2),)), GovernError, "4,104 bytes is larger", id="large"),
        pytest.param(Message("x", {"a": "b" * 2**16}), GovernError, "65,536 bytes", id="header"),
        pytest.param(Message("x", {}, (torch.zeros(1, dtype=torch.cfloat),)), InputError, "complex64", id="complex"),
        pytest.param(Message("x", {}, (torch.zeros(1).to_sparse(),)), InputError, "sparse", id="sparse"),
    ],
)
def test_what_cannot_cross_is_not_sent(message: Message, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        frame(message, SMALL)


@pytest.mark.parametrize(
    ("prelude", "says"),
    [
        pytest.param(PRELUDE.pack(b"GET ", 0, 0), "begins with b'GET '", id="another protocol"),
        pytest.param(PRELUDE.pack(b"MKW2", 0, 0), "begins with b'MKW2'", id="another version"),
        pytest.param(PRELUDE.pack(MAGIC, 65_537, 0), "header of 65,537 bytes", id="header"),
        pytest.param(PRELUDE.pack(MAGIC, 10, 4097), "announces 4,097 bytes", id="tensors"),
        pytest.param(PRELUDE.pack(MAGIC, 10, 2**64 - 1), "announces", id="absurd"),
    ],
)
def test_a_forged_prelude_is_refused(prelude: bytes, says: str) -> None:
    with pytest.raises(WireError, match=says):
        read_prelude(bytearray(prelude), SMALL)


@pytest.mark.parametrize(
    ("text", "rest", "wire", "says"),
    [
        pytest.param(bytearray(b"{"), 0, SMALL, "not JSON", id="broken"),
        pytest.param(bytearray(b"\xff\xfe"), 0, SMALL, "not JSON", id="not text"),
        pytest.param(bytearray(b"[" * 60_000), 0, SMALL, "not JSON", id="deep"),
        pytest.param(header([], header={"a": float("nan")}), 0, SMALL, "NaN is not a number", id="nan"),
        pytest.param(bytearray(b"[]"), 0, SMALL, "exactly a kind", id="list"),
        pytest.param(header([], kind=1), 0, SMALL, "exactly a kind", id="kind"),
        pytest.param(header([], more=1), 0, SMALL, "exactly a kind", id="more"),
        pytest.param(header([["uint8", "uint8", [], 1, False]] * 65), 65, SMALL, "announces 65 tensors", id="many"),
        pytest.param(header([["object", "object", [], 1, False]]), 1, SMALL, "cannot be one", id="dtype"),
        pytest.param(header([["uint8", "uint8", [-1], 1, False]]), 1, SMALL, "cannot be one", id="negative"),
        pytest.param(header([["uint8", "uint8", [True], 1, False]]), 1, SMALL, "cannot be one", id="bool"),
        pytest.param(header([["uint8", "uint8", [1.0], 1, False]]), 1, SMALL, "cannot be one", id="float"),
        pytest.param(header([["uint8", "uint8", [1] * 17, 1, False]]), 1, SMALL, "cannot be one", id="dimensions"),
        pytest.param(header([["uint8", "uint8", [2**32] * 2, 0, False]]), 0, SMALL, "cannot be one", id="overflow"),
        pytest.param(header([["uint8", "uint8", [0, 2**62], 0, False]]), 0, SMALL, "cannot be one", id="empty"),
        pytest.param(header([["uint8", "uint8", [2], True, False]]), 1, SMALL, "cannot be one", id="size is bool"),
        pytest.param(header([["uint8", "uint8", [2], 1, False]]), 1, SMALL, "2 bytes is announced with 1", id="short"),
        pytest.param(header([["uint8", "uint8", [2], -2, False]]), 2, SMALL, "with -2", id="negative size"),
        pytest.param(header([["uint8", "uint8", [2], 2, False]]), 3, SMALL, "not those of its tensors", id="rest"),
        pytest.param(header([["uint8", "uint8", [4097], 4097, False]]), 9, SMALL, "tensors of 4,097", id="large"),
        pytest.param(header([["uint8", "uint8", [9], 5, True]]), 5, SMALL, "says that none is", id="compressed"),
        pytest.param(header([["uint8", "uint8", [9], 9, True]]), 9, ZSTD, "with 9 on the wire", id="no smaller"),
        pytest.param(header([["uint8", "uint8", [9], 0, True]]), 0, ZSTD, "with 0 on the wire", id="nothing"),
        pytest.param(header([["uint8", "uint8", [2**40], 50, True]]), 50, ZSTD, "tensors of 1,099", id="bomb"),
        pytest.param(header([["float32", "bfloat16", [1], 2, False]]), 2, SMALL, "not what the agree", id="rounded"),
        pytest.param(header([["int64", "uint8", [1], 1, False]]), 1, SMALL, "not what the agree", id="narrowed"),
    ],
)
def test_a_forged_header_is_refused(text: bytearray, rest: int, wire: Wire, says: str) -> None:
    with pytest.raises(WireError, match=says):
        read_header(text, rest, wire)


@given(st.binary(max_size=2000))
def test_no_header_ends_in_anything_but_a_wire_error(text: bytes) -> None:
    with pytest.raises(WireError):
        read_header(bytearray(text), 0, SMALL)


@given(st.binary(max_size=400), st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_compression_loses_nothing_and_helps_or_is_left_away(some: bytes, itemsize: int, alike: bool) -> None:
    content = memoryview(some * itemsize * (20 if alike else 1))
    packed = pack(content, itemsize)
    if packed is None:
        return
    assert len(packed) < len(content)
    back = bytearray(len(content))
    unpack(memoryview(packed), memoryview(back), itemsize)
    assert back == content


def test_compression_takes_what_is_alike_in_floats() -> None:
    weights = octets(torch.randn(100_000, generator=torch.Generator().manual_seed(0)))
    packed = pack(weights, 4)
    assert packed is not None
    assert len(packed) < len(zstandard.compress(bytes(weights), 1)) < len(weights)


@pytest.mark.parametrize(
    ("packed", "says"),
    [
        pytest.param(zstandard.compress(bytes(99)), "does not hold the 100 bytes", id="fewer"),
        pytest.param(zstandard.compress(bytes(2**27)), "does not hold the 100 bytes", id="bomb"),
        pytest.param(zstandard.compress(bytes(100))[:-3], "does not hold", id="cut off"),
        pytest.param(b"no such thing", "cannot be read", id="garbage"),
    ],
)
def test_compressed_bytes_that_are_not_what_was_announced_are_refused(packed: bytes, says: str) -> None:
    with pytest.raises(WireError, match=says):
        unpack(memoryview(packed), memoryview(bytearray(100)), 4)


def test_a_digest_is_the_blake3_of_types_shapes_and_bytes() -> None:
    x, y = torch.arange(6.0).reshape(2, 3).T, torch.tensor(7)
    digest = Digest(PLAIN)
    digest.update([x, y])
    spelled = (
        b"torch.float32(3, 2)" + np.ascontiguousarray(x.numpy()).tobytes() + b"torch.int64()" + y.numpy().tobytes()
    )
    assert digest.hexdigest() == blake3(spelled).hexdigest()


def digest_of(wire: Wire, *tensors: Tensor) -> str:
    digest = Digest(wire)
    digest.update(tensors)
    return digest.hexdigest()


def test_both_ends_of_a_rounding_wire_have_the_same_digest() -> None:
    wire = Wire(dtype="bfloat16")
    sent = torch.randn(50, generator=torch.Generator().manual_seed(0))
    received = sent.bfloat16().float()
    assert not torch.equal(sent, received)
    assert digest_of(wire, sent) == digest_of(wire, received)
    assert digest_of(PLAIN, sent) != digest_of(PLAIN, received)
    assert digest_of(wire, torch.zeros(2)) != digest_of(wire, torch.zeros(2, 1))
