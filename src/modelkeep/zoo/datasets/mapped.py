"""Arrays in files: .npy, the members of an .npz, safetensors. Nothing is read before it is used."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import FileIO
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.errors import DataError

# As much as safetensors itself allows.
_MOST_HEADER = 100_000_000

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
    """An array in a file: its type and shape, and its rows when they are asked for.

    Rows are read, not mapped: a map of a file that another process makes shorter ends this process (SIGBUS), and Linux
    maps up to two megabytes around each row. A file that changes while it is in use is refused, because its rows would
    be a mixture of two sets.
    """

    path: Path
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        found = self.path.stat()
        if self.dtype.itemsize == 0 or min(self.shape, default=0) < 0:
            raise DataError(f"{self.path} declares an array of {self.dtype} {self.shape}, which there cannot be.")
        if found.st_size < self.offset + self.dtype.itemsize * prod(self.shape):
            raise DataError(f"{self.path} ends before its array of shape {self.shape} does. Is the file complete?")
        self._seen = _identity(found)

    def __reduce__(self) -> Any:
        return _reopen, (self.path, self.offset, self.dtype, self.shape, self._seen)

    def all(self) -> NDArray[Any]:
        """A copy of the whole array."""
        return self.take(slice(None))

    def take(self, index: NDArray[np.int64] | slice) -> NDArray[Any]:
        """A copy of the rows at `index`."""
        with self.path.open("rb", buffering=0) as file:
            self._require_unchanged(file)
            if isinstance(index, np.ndarray) or index.step not in (None, 1):
                rows = index if isinstance(index, np.ndarray) else np.arange(self.shape[0])[index]
                taken = self._read_rows(file, rows)
            else:
                start, stop, _ = index.indices(self.shape[0]) if self.shape else (0, 1, 1)
                taken = self._read_stretch(file, start, max(start, stop))
            self._require_unchanged(file)
        return taken

    def _read_stretch(self, file: FileIO, start: int, stop: int) -> NDArray[Any]:
        """Rows that follow on each other."""
        shape = (stop - start, *self.shape[1:]) if self.shape else ()
        taken: NDArray[Any] = np.empty(shape, self.dtype)
        if taken.size:
            file.seek(self.offset + start * self._row)
            self._fill(file, taken.reshape(-1).view(np.uint8).data)
        return taken

    def _read_rows(self, file: FileIO, index: NDArray[np.int64]) -> NDArray[Any]:
        """Rows here and there."""
        rows: NDArray[Any] = np.empty((len(index), *self.shape[1:]), self.dtype)
        into = rows.reshape(len(index), -1).view(np.uint8) if rows.size else rows
        for place, row in enumerate(index.tolist() if rows.size else []):
            start = self.offset + (row % self.shape[0]) * self._row
            if hasattr(os, "preadv") and os.preadv(file.fileno(), [into[place].data], start) == self._row:
                continue
            file.seek(start)
            self._fill(file, into[place].data)
        return rows

    def _fill(self, file: FileIO, into: memoryview) -> None:
        """Read as much as there is room for; one read gives two gigabytes at most."""
        while into:
            count = file.readinto(into)
            if not count:
                raise DataError(f"{self.path} has become shorter while it was read. Open the data again.")
            into = into[count:]

    @property
    def _row(self) -> int:
        return self.dtype.itemsize * prod(self.shape[1:])

    def _require_unchanged(self, file: FileIO) -> None:
        if _identity(os.fstat(file.fileno())) != self._seen:
            raise DataError(
                f"{self.path} was changed while it was in use, so what was read before and after would not belong "
                "together. Open the data again, and write a new file in place of changing one."
            )


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    """What changes when a file is written or replaced: which file it is, its size, the time of the last change."""
    return found.st_ino, found.st_size, found.st_mtime_ns


def _reopen(
    path: Path, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...], seen: tuple[int, int, int]
) -> Mapped:
    """The same array in another process: of the same file as there."""
    found = Mapped(path, offset, dtype, shape)
    found._seen = seen
    return found


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


def member_sizes(path: Path) -> dict[str, tuple[int, int]]:
    """How many numbers and bytes each array of an .npz file has; a header that the archive belies is refused.

    A few kilobytes can be packed that declare, or unpack to, more than any memory holds.
    """
    found = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                shape, _, dtype = _parse(file, path)
                held = member.file_size - file.tell()
            if min(shape, default=0) < 0 or (not dtype.hasobject and dtype.itemsize * prod(shape) != held):
                raise DataError(
                    f"'{member.filename}' in {path} declares an array of {dtype} {shape}, but holds {held:,} bytes."
                )
            found[member.filename.removesuffix(".npy")] = prod(shape), dtype.itemsize * prod(shape)
    return found


def map_safetensors(path: Path) -> tuple[dict[str, Mapped], Mapping[str, str]]:
    """The tensors of a safetensors file, and the texts of its header."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size - 8:
            raise DataError(f"{path} cannot be read as safetensors: its header is longer than the file.")
        if length > _MOST_HEADER:
            raise DataError(f"{path} cannot be read as safetensors: its header of {length:,} bytes is too long.")
        try:
            header = json.loads(file.read(length))
            texts = header.pop("__metadata__", {})
            return {name: _entry(path, 8 + length, name, entry) for name, entry in header.items()}, texts
        except (ValueError, RecursionError, AttributeError, KeyError, IndexError, TypeError) as error:
            raise DataError(f"{path} cannot be read as safetensors: {error!r}. Is it complete?") from error


def _entry(path: Path, start: int, name: str, entry: Any) -> Mapped:
    if entry["dtype"] not in _SAFETENSORS:
        raise DataError(f"'{name}' in {path.name} is of type {entry['dtype']}. Allowed: {', '.join(_SAFETENSORS)}.")
    begin, shape = int(entry["data_offsets"][0]), tuple(int(size) for size in entry["shape"])
    if begin < 0:
        raise DataError(f"'{name}' in {path.name} begins before the data do. Is the file complete?")
    return Mapped(path, start + begin, np.dtype(_SAFETENSORS[entry["dtype"]]), shape)


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
