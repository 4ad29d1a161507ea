"""Tensors of the Open Inference Protocol as numpy arrays, and one name for the same query however it was sent."""

from __future__ import annotations

import hashlib
import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkeep.guard.refusals import Malformed, TooLarge

Array = NDArray[Any]

# Little-endian, as the binary extension and gRPC's raw contents fix it on every machine.
DTYPES = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
_KINDS: dict[str, set[type]] = {"b": {bool}, "u": {int}, "i": {int}, "f": {int, float}}  # what JSON may hold for them
ELEMENTS = 1 << 24  # the elements that one tensor may have, unless the gateway is told otherwise


@dataclass(frozen=True)
class TensorSpec:
    """What a model takes or gives: `shape` is that of one row, without the batch in front."""

    name: str
    datatype: str
    shape: tuple[int, ...]


def datatype_of(array: Array) -> str:
    """The protocol's name of an array's type.

    >>> datatype_of(np.zeros(2, dtype=np.float32))
    'FP32'
    """
    kind = {"b": "BOOL", "u": "UINT", "i": "INT", "f": "FP"}[array.dtype.kind]
    return kind if kind == "BOOL" else f"{kind}{8 * array.dtype.itemsize}"


def dtype_of(datatype: object, name: str) -> np.dtype[Any]:
    """The numpy type of a datatype; `name` is the tensor's, for the sentence of a refusal."""
    if datatype == "BYTES":
        raise Malformed(f"Input '{name}' is of BYTES, but a classifier takes numbers. Send {', '.join(DTYPES)}.")
    known = DTYPES.get(datatype) if isinstance(datatype, str) else None
    if known is None:
        raise Malformed(f"The datatype of input '{name}' must be one of {', '.join(DTYPES)}. Got {short(datatype)}.")
    return known


def _size_of(shape: object, name: str, most: int = ELEMENTS) -> int:
    """How many elements a tensor of this shape has, after the checks that come before any memory is taken."""
    if not isinstance(shape, Sequence) or isinstance(shape, str) or not 1 <= len(shape) <= 16:
        raise Malformed(f"The shape of input '{name}' must be a list of 1 to 16 whole numbers. Got {short(shape)}.")
    if any(type(side) is not int or side < 1 for side in shape):
        raise Malformed(f"The shape of input '{name}' must hold whole numbers of 1 or more. Got {short(list(shape))}.")
    size = math.prod(shape)
    if size > most:
        raise TooLarge(f"Input '{name}' has {size} elements; at most {most} are taken at once.")
    return size


def from_bytes(raw: bytes | memoryview, datatype: object, shape: object, name: str, most: int = ELEMENTS) -> Array:
    """A tensor of little-endian bytes in row-major order.

    >>> from_bytes(bytes([1, 0]), "UINT16", [1], "x")
    array([1], dtype=uint16)
    """
    dtype = dtype_of(datatype, name)
    size = _size_of(shape, name, most)
    if len(raw) != size * dtype.itemsize:
        raise Malformed(
            f"Input '{name}' has {len(raw)} bytes, but {datatype} of shape {shape} has {size * dtype.itemsize}."
        )
    if dtype.kind == "b":
        octets = np.frombuffer(raw, dtype=np.uint8)
        if octets.max() > 1:
            raise Malformed(f"Input '{name}' is of BOOL, so each byte must be 0 or 1.")
        return octets.astype(dtype).reshape(shape)  # type: ignore[call-overload, no-any-return]
    return np.frombuffer(raw, dtype=dtype).reshape(shape)  # type: ignore[call-overload, no-any-return]


def from_numbers(data: object, datatype: object, shape: object, name: str, most: int = ELEMENTS) -> Array:
    """A tensor of JSON's numbers: a flat list in row-major order, or lists within lists of the same shape.

    >>> from_numbers([[1, 2.5]], "FP32", [1, 2], "x")
    array([[1. , 2.5]], dtype=float32)
    >>> from_numbers([300], "UINT8", [1], "x")
    Traceback (most recent call last):
    modelkeep.guard.refusals.Malformed: Input 'x' holds a number that UINT8 cannot hold.
    """
    dtype = dtype_of(datatype, name)
    size = _size_of(shape, name, most)
    assert isinstance(shape, Sequence)
    if not isinstance(data, list):
        raise Malformed(f"The data of input '{name}' must be a list of numbers. Got {short(data)}.")
    kinds = set(map(type, data))
    for depth in range(len(shape) - 1):
        if kinds != {list}:
            break
        if len(data) != math.prod(shape[: depth + 1]) or any(len(part) != shape[depth + 1] for part in data):
            raise Malformed(f"The lists within lists of input '{name}' do not have its shape {list(shape)}.")
        data = list(chain.from_iterable(data))
        kinds = set(map(type, data))
    if len(data) != size:
        raise Malformed(f"Input '{name}' has {len(data)} numbers, but its shape {list(shape)} has {size}.")
    allowed = _KINDS[dtype.kind]
    if not kinds <= allowed:
        wanted = " or ".join(sorted(kind.__name__ for kind in allowed))
        odd = " and ".join(sorted(kind.__name__ for kind in kinds - allowed))
        raise Malformed(f"The data of input '{name}' must be {wanted} for {datatype}. Got {odd}.")
    return _narrow(data, dtype, str(datatype), name).reshape(shape)


def _narrow(data: list[Any], dtype: np.dtype[Any], datatype: str, name: str) -> Array:
    """The numbers in their own type, none of them wrapped around or turned to infinity."""
    try:
        if dtype.kind == "f":
            with np.errstate(over="ignore"):
                array = np.array(data, dtype=np.float64).astype(dtype)
            if np.isfinite(array).all():
                return array
        elif dtype.kind == "b":
            return np.array(data, dtype=dtype)
        else:
            wide = np.array(data, dtype=np.uint64 if dtype.kind == "u" else np.int64)
            limits = np.iinfo(dtype)
            if wide.min() >= limits.min and wide.max() <= limits.max:
                return wide.astype(dtype)
    except OverflowError:
        pass
    raise Malformed(f"Input '{name}' holds a number that {datatype} cannot hold.")


def canonical(array: Array, spec: TensorSpec) -> Array:
    """The rows of a query as the model computes on them: its own type, finite, and with one zero instead of two.

    >>> canonical(np.array([[-0.0, 1.0]]), TensorSpec("x", "FP32", (2,)))
    array([[0., 1.]], dtype=float32)
    """
    if array.ndim != len(spec.shape) + 1 or array.shape[1:] != spec.shape or not len(array):
        wanted = ", ".join(("n", *map(str, spec.shape)))
        raise Malformed(f"Input '{spec.name}' must have shape ({wanted}) with n of 1 or more. Got {list(array.shape)}.")
    dtype = DTYPES[spec.datatype]
    if dtype.kind != "f":
        if array.dtype != dtype:
            raise Malformed(f"Input '{spec.name}' must be of {spec.datatype}. Got {datatype_of(array)}.")
        return np.ascontiguousarray(array)
    with np.errstate(over="ignore", invalid="ignore"):
        # −0 + 0 = 0, and every other number stays.
        rows: Array = np.ascontiguousarray(array, dtype=dtype) + np.zeros((), dtype=dtype)
    if not np.isfinite(rows).all():
        raise Malformed(f"Input '{spec.name}' must be finite as {spec.datatype}. It holds NaN, infinity or too much.")
    return rows


def query_hashes(rows: Array) -> list[bytes]:
    """The name of each row's query, 32 bytes: the same however, and beside whichever rows, it was sent."""
    kind = f"{datatype_of(rows)}{list(rows.shape[1:])}".encode()
    base = hashlib.blake2b(kind.ljust(128, b"\0"), digest_size=32)
    names = []
    for row in rows:
        name = base.copy()
        name.update(row.data)
        names.append(name.digest())
    return names


def short(value: object) -> str:
    """What was got, for a sentence, however long or deep it is: `repr` alone fails on lists a thousand lists deep."""
    text = reprlib.repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
