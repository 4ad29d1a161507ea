"""Arrays in files, mapped into memory: .npy, the members of an .npz, safetensors. Nothing is read before it is used."""

from __future__ import annotations

import json
import mmap
import os
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.errors import DataError

# Pages that were read stay mapped, and count as this process's memory, until it gives them back.
_GIVE_BACK = 2**24

# What safetensors and numpy call the same type.
_SAFETENSORS = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "U64": "<u8",
    "I64": "<i8",
}


@dataclass
class Mapped:
    """An array in a file: its type and shape, and its rows when they are asked for."""

    path: Path
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        self._since = 0
        if self.path.stat().st_size < self.offset + self.dtype.itemsize * prod(self.shape):
            raise DataError(f"{self.path} ends before its array of shape {self.shape} does. Is the file complete?")
        with self.path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if prod(self.shape) else b""
        values = np.frombuffer(self._map, self.dtype, prod(self.shape), self.offset if self._map else 0)
        self._array: NDArray[Any] = values.reshape(self.shape)

    def __reduce__(self) -> Any:
        return Mapped, (self.path, self.offset, self.dtype, self.shape)

    def all(self) -> NDArray[Any]:
        """A copy of the whole array."""
        return self.take(slice(None))

    def take(self, index: NDArray[np.int64] | slice) -> NDArray[Any]:
        """A copy of the rows at `index`."""
        if isinstance(index, np.ndarray) and hasattr(os, "preadv"):
            return self._read_rows(index)
        taken: NDArray[Any] = np.array(self._array[index])
        self._since += taken.nbytes
        if self._since > _GIVE_BACK and isinstance(self._map, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
            self._since = 0
        return taken

    def _read_rows(self, index: NDArray[np.int64]) -> NDArray[Any]:
        """Rows here and there are read, not mapped: Linux would map up to two megabytes around each of them."""
        size = self.dtype.itemsize * prod(self.shape[1:])
        rows: NDArray[Any] = np.empty((len(index), *self.shape[1:]), self.dtype)
        into = rows.reshape(len(index), -1).view(np.uint8) if rows.size else rows
        with self.path.open("rb") as file:
            for place, row in enumerate(index.tolist()):
                if rows.size and os.preadv(file.fileno(), [into[place].data], self.offset + row * size) != size:
                    raise DataError(f"{self.path} has become shorter while it was read.")
        return rows


def map_npy(path: Path) -> Mapped:
    """The array of an .npy file."""
    with path.open("rb") as file:
        return _header(file, path)


def map_member(path: Path, name: str, unpack: Callable[[Path, str], Path]) -> Mapped:
    """The array `name` of an .npz file. A compressed one cannot be mapped: `unpack` puts it where it can be."""
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        member = archive.getinfo(f"{name}.npy")
        if member.compress_type != zipfile.ZIP_STORED:
            return map_npy(unpack(path, member.filename))
        # The local header says how long the member's name and its extra field are; the central one may differ.
        file.seek(member.header_offset)
        names, extra = struct.unpack("<HH", file.read(30)[26:30])
        start = member.header_offset + 30 + names + extra
        file.seek(start)
        return _header(file, path)


def member_size(path: Path, name: str) -> int:
    """How many numbers the array `name` of an .npz file holds; 0 where there is none."""
    with zipfile.ZipFile(path) as archive:
        if f"{name}.npy" not in archive.namelist():
            return 0
        with archive.open(f"{name}.npy") as file:
            shape, _, _ = _parse(file, path)
    return prod(shape)


def map_safetensors(path: Path) -> tuple[dict[str, Mapped], Mapping[str, str]]:
    """The tensors of a safetensors file, and the texts of its header."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            raise DataError(f"{path} cannot be read as safetensors: its header is longer than the file.")
        try:
            header = json.loads(file.read(length))
        except ValueError as error:
            raise DataError(f"{path} cannot be read as safetensors: {error}.") from error
    texts = header.pop("__metadata__", {})
    found = {}
    for name, entry in header.items():
        if entry["dtype"] not in _SAFETENSORS:
            raise DataError(f"'{name}' in {path.name} is of type {entry['dtype']}. Allowed: {', '.join(_SAFETENSORS)}.")
        start = 8 + length + entry["data_offsets"][0]
        found[name] = Mapped(path, start, np.dtype(_SAFETENSORS[entry["dtype"]]), tuple(entry["shape"]))
    return found, texts


def _header(file: IO[bytes], path: Path) -> Mapped:
    """Where the array lies that begins, with its .npy header, at the position of `file`."""
    shape, fortran, dtype = _parse(file, path)
    if dtype.hasobject:
        raise DataError(f"{path} holds Python objects (pickles), which are refused. Save plain arrays.")
    if fortran and len(shape) > 1:
        raise DataError(
            f"An array in {path} is in Fortran order: each example is spread over the whole file. Save it with "
            "np.ascontiguousarray(x)."
        )
    return Mapped(path, file.tell(), dtype, shape)


def _parse(file: IO[bytes], path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran order, and type, as the .npy header at the position of `file` says."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        version = np.lib.format.read_magic(file)
        if version not in readers:
            raise ValueError(f"the version {version} of its header is not known")
        return readers[version](file)
    except (ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an array: {error}.") from error
