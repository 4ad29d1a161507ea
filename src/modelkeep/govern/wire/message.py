"""Message: what parties say to each other, a kind, some JSON and raw tensors, and the frame in which it crosses.

A frame is a prelude of 16 bytes (magic and version, length of the header, bytes of the tensors), the header (JSON) and
the tensors' own bytes, little-endian, one after another. Nothing in it can run (no pickle), and every length is
checked against its limit before anything is allocated.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor

from modelkeep.core.errors import GovernError, InputError, MissingExtra, WireError, join_names
from modelkeep.core.signing import canonical
from modelkeep.govern.wire.compression import pack
from modelkeep.govern.wire.settings import Wire

PRELUDE = struct.Struct("<4sIQ")
MAGIC = b"MKW1"
_LONGEST_HEADER = 64 * 1024
_MOST_TENSORS = 64
_MOST_DIMENSIONS = 16
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
        *(torch.int64, torch.int32, torch.uint8, torch.bool),
    )
}


@dataclass(frozen=True, eq=False)
class Message:
    """A kind, JSON values, and tensors."""

    kind: str
    header: dict[str, Any] = field(default_factory=dict)
    tensors: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class Coming:
    """A tensor that the header of a frame announces; `size` is its bytes on the wire, `packed` or not."""

    dtype: torch.dtype
    crossing: torch.dtype
    shape: tuple[int, ...]
    size: int
    packed: bool


def prepare_crossing(tensor: Tensor, wire: Wire) -> Tensor:
    """The tensor as it crosses: in main memory, contiguous, float32 rounded to bfloat16 where the agreement says so."""
    tensor = tensor.detach()
    if wire.dtype == "bfloat16" and tensor.dtype is torch.float32:
        tensor = tensor.to(torch.bfloat16)
    return tensor.cpu().contiguous()


def octets(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor itself, as bytes; it can be written to."""
    flat = tensor.as_strided((tensor.numel(),), (1,))  # a contiguous tensor may have odd strides where a size is 1
    return flat.view(torch.uint8).numpy().data


def frame(message: Message, wire: Wire) -> list[bytes | memoryview]:
    """The message as the stretches of memory that cross one after another; the tensors are not copied."""
    if len(message.tensors) > _MOST_TENSORS:
        raise GovernError(f"A message carries at most {_MOST_TENSORS} tensors. Got {len(message.tensors)}.")
    described: list[list[Any]] = []
    stretches: list[bytes | memoryview] = []
    whole = 0
    for tensor in message.tensors:
        if tensor.dtype not in DTYPES.values() or tensor.layout is not torch.strided:
            raise InputError(
                f"A tensor of {tensor.dtype} ({tensor.layout}) cannot cross the wire. Those that can are strided "
                f"tensors of {join_names(list(DTYPES))}."
            )
        whole += tensor.nbytes
        crosses = prepare_crossing(tensor, wire)
        plain = octets(crosses)
        packed = pack(plain, crosses.itemsize) if wire.compression == "zstd" else None
        content = plain if packed is None else packed
        names = (str(dtype).removeprefix("torch.") for dtype in (tensor.dtype, crosses.dtype))
        described.append([*names, list(tensor.shape), len(content), packed is not None])
        stretches.append(content)
    if whole > wire.largest:
        raise GovernError(
            f"A message '{message.kind}' of {whole:,} bytes is larger than the {wire.largest:,} that the agreement "
            "allows. Use smaller batches or more micro-batches, or agree on a larger 'wire.largest'."
        )
    header = canonical({"kind": message.kind, "header": message.header, "tensors": described})
    if len(header) > _LONGEST_HEADER:
        raise GovernError(f"The header of a message may have {_LONGEST_HEADER:,} bytes. This one has {len(header):,}.")
    return [PRELUDE.pack(MAGIC, len(header), sum(map(len, stretches))) + header, *stretches]


def read_prelude(prelude: bytearray, wire: Wire) -> tuple[int, int]:
    """The length of the header and the number of bytes after it."""
    magic, length, rest = PRELUDE.unpack(prelude)
    if magic != MAGIC:
        raise WireError(f"This is not a message of this version of the protocol: it begins with {magic!r}.")
    if length > _LONGEST_HEADER:
        raise WireError(f"A message announces a header of {length:,} bytes; at most {_LONGEST_HEADER:,} are allowed.")
    if rest > wire.largest:
        raise WireError(f"A message announces {rest:,} bytes; the agreement allows at most {wire.largest:,}.")
    return length, rest


def read_header(text: bytearray, rest: int, wire: Wire) -> tuple[str, dict[str, Any], list[Coming]]:
    """The kind and the values of a message, and the tensors that follow in exactly `rest` bytes."""
    try:
        values = json.loads(text, parse_constant=_no_number)
        if b"\\ud" in text.lower():
            canonical(values)  # half a character, which JSON can spell, could be neither written down nor answered
    except (ValueError, RecursionError) as error:
        raise WireError(f"The header of a message is not JSON: {error}.") from error
    match values:
        case {"kind": str(kind), "header": dict(header), "tensors": list(described), **more} if not more:
            pass
        case _:
            raise WireError("The header of a message does not have exactly a kind, values and tensors.")
    if len(described) > _MOST_TENSORS:
        raise WireError(f"A message announces {len(described)} tensors; at most {_MOST_TENSORS} are allowed.")
    coming = [_read_announcement(one, wire) for one in described]
    whole = sum(prod(one.shape) * one.dtype.itemsize for one in coming)
    if whole > wire.largest:
        raise WireError(f"A message announces tensors of {whole:,} bytes; the agreement allows {wire.largest:,}.")
    if sum(one.size for one in coming) != rest:
        raise WireError("The bytes that a message announces are not those of its tensors.")
    return kind, header, coming


def _read_announcement(described: Any, wire: Wire) -> Coming:
    """One tensor's description, checked."""
    match described:
        case [str(name), str(crossing_name), list(shape), int(size), bool(packed)] if (
            name in DTYPES and crossing_name in DTYPES and _is_shape(shape) and not isinstance(size, bool)
        ):
            pass
        case _:
            raise WireError(
                f"A message announces a tensor that cannot be one: {str(described)[:200]}. A tensor has one of the "
                f"types {join_names(list(DTYPES))} and at most {_MOST_DIMENSIONS} dimensions."
            )
    dtype, crosses = DTYPES[name], DTYPES[crossing_name]
    rounded = wire.dtype == "bfloat16" and dtype is torch.float32
    if crosses is not (torch.bfloat16 if rounded else dtype):
        raise WireError(f"A {name} tensor crosses as {crossing_name}, which is not what the agreement says.")
    bytes_as_they_are = prod(shape) * crosses.itemsize
    if packed and wire.compression != "zstd":
        raise WireError("A tensor is compressed, and the agreement says that none is.")
    if not (0 < size < bytes_as_they_are if packed else size == bytes_as_they_are):
        raise WireError(f"A tensor of {bytes_as_they_are:,} bytes is announced with {size:,} on the wire.")
    return Coming(dtype, crosses, tuple(shape), size, packed)


def _is_shape(shape: Sequence[Any]) -> bool:
    """Whether it could be one: each size fits 63 bits even where another is 0, as torch multiplies them all."""
    if len(shape) > _MOST_DIMENSIONS or not all(type(size) is int and size >= 0 for size in shape):
        return False
    return prod(max(int(size), 1) for size in shape) < 2**60


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON's")


class Digest:
    """The BLAKE3 of what crosses between two parties, the same at both ends, for their ledgers.

    It is of types, shapes and bytes as they cross: rounded to bfloat16 where they are, before any compression.

    >>> import torch
    >>> sent, received = Digest(Wire()), Digest(Wire())
    >>> sent.update([torch.ones(2), torch.zeros(())])
    >>> received.update([torch.ones(2)])
    >>> received.update([torch.zeros(())])
    >>> sent.hexdigest() == received.hexdigest()
    True
    """

    def __init__(self, wire: Wire) -> None:
        try:
            from blake3 import blake3
        except ImportError as missing:
            raise MissingExtra("govern", "blake3", "A digest of what crosses") from missing
        self._wire, self._hash = wire, blake3()

    def update(self, tensors: Iterable[Tensor]) -> None:
        """Hash some more tensors."""
        for tensor in tensors:
            crosses = prepare_crossing(tensor, self._wire)
            self._hash.update(f"{crosses.dtype}{tuple(crosses.shape)}".encode())
            self._hash.update(octets(crosses))

    def hexdigest(self) -> str:
        """The hash of all tensors so far, in hexadecimal."""
        return self._hash.hexdigest()
