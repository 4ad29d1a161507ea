"""Pickles: what is in one, told without opening it.

A pickle is a program, and to load it is to run it. Here its operations are only listed, as `pickletools` does, and the
names of the classes that it would import tell what it holds.
"""

from __future__ import annotations

import bz2
import lzma
import pickletools
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal

Kind = Literal["torchscript", "module", "state dict", "object"]
Loader = Literal["torch", "joblib", "pickle"]

SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".joblib", ".model")
_HEAD = 4 * 2**20  # bytes of a pickle that are looked at; classes are named before the arrays that they hold
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of a file that torch.save wrote before version 1.6
# What the pickle of a dictionary of tensors names, and weights_only=True allows.
_WEIGHTS = re.compile(
    r"collections\.OrderedDict|torch\._utils\._rebuild_\w+|torch\._tensor\._rebuild\w+|torch\.[A-Za-z0-9]+"
    r"|torch\.storage\.\w+|torch\.serialization\.\w+|(__builtin__|builtins)\.(set|int|float|complex|bytearray|list|dict)"
    r"|torch\.nn\.parameter\.Parameter|numpy(\.\w+)*\.(scalar|dtype|_reconstruct|ndarray)|_codecs\.encode"
)


@dataclass(frozen=True)
class Pickle:
    """What a file holds, what loads it where it was made, and the class of the object (`package.module:Class`)."""

    kind: Kind
    loader: Loader
    owner: str | None


def recognise(path: Path) -> Pickle | None:
    """What the pickle in a file holds, whatever the file is called; None for a file that is none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head[:2] == b"PK":
        return _archive(path)
    if _is_pickle(head):
        return _stream(head)
    content = _unpack(head)
    return _object(content, "joblib") if _is_pickle(content) else None


def _is_pickle(head: bytes) -> bool:
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def _archive(path: Path) -> Pickle | None:
    """A zip as torch.save and torch.jit.save write it."""
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        held = [name for name in names if re.fullmatch(r"[^/]+/data\.pkl", name)]
        if not held:
            return None
        folder = held[0].removesuffix("data.pkl")
        with archive.open(held[0]) as file:
            classes = list(_classes(file.read(_HEAD)))
    if f"{folder}constants.pkl" in names or any(name.startswith(f"{folder}code/") for name in names):
        return Pickle("torchscript", "torch", _owner(classes))
    return _of_torch(classes)


def _of_torch(classes: list[str]) -> Pickle:
    owner = _owner(classes)
    return Pickle("state dict" if owner is None else "module", "torch", owner)


def _stream(head: bytes) -> Pickle:
    first = next(_values(head), None)
    if first == _TORCH_MAGIC:
        # The magic number, the protocol and the machine are pickles of their own; the object is the next.
        rest = BytesIO(head)
        for _ in range(3):
            for _ in pickletools.genops(rest):
                pass
        return _of_torch(list(_classes(head[rest.tell() :])))
    return _object(head, "pickle")


def _object(content: bytes, loader: Loader) -> Pickle:
    classes = list(_classes(content))
    if any(name.startswith("joblib.") for name in classes):
        loader = "joblib"
        classes = [name for name in classes if not name.startswith("joblib.")]
    kind: Kind = "module" if any(name.startswith("torch.") for name in classes) else "object"
    return Pickle(kind, loader, _owner(classes))


def _owner(classes: list[str]) -> str | None:
    """The first class that is more than a container of tensors: that of the object itself."""
    for name in classes:
        if not _WEIGHTS.fullmatch(name):
            # TorchScript writes net.Net as __torch__.net.___torch_mangle_3.Net.
            plain = re.sub(r"^__torch__\.|___torch_mangle_\d+\.", "", name)
            module, _, attribute = plain.rpartition(".")
            return f"{module}:{attribute}"
    return None


def _values(content: bytes) -> Iterator[object]:
    """The numbers and texts that the operations of a pickle push."""
    for operation, argument, _ in _operations(content):
        if operation in ("LONG1", "LONG4", "BININT", "BININT1", "BININT2"):
            yield argument


def _classes(content: bytes) -> Iterator[str]:
    """The classes and functions that a pickle would import, in their order: `package.module.Name`."""
    kept: list[object] = []
    recent: list[object] = []  # what was pushed last: the name of a class and of its module are texts
    for operation, argument, _ in _operations(content):
        match operation:
            case "GLOBAL":
                yield str(argument).replace(" ", ".")
                recent.append(None)
            case "STACK_GLOBAL":
                if len(recent) >= 2 and all(isinstance(part, str) for part in recent[-2:]):
                    yield f"{recent[-2]}.{recent[-1]}"
                recent.append(None)
            case "MEMOIZE":
                kept.append(recent[-1] if recent else None)
            case "BINGET" | "LONG_BINGET":
                place = int(str(argument))
                recent.append(kept[place] if place < len(kept) else None)
            case "SHORT_BINUNICODE" | "BINUNICODE" | "BINUNICODE8":
                recent.append(argument)
            case "PROTO" | "FRAME":
                pass
            case _:
                recent.append(None)


def _operations(content: bytes) -> Iterator[tuple[str, object, int | None]]:
    try:
        for operation, argument, place in pickletools.genops(content):
            yield operation.name, argument, place
    except (ValueError, IndexError, UnicodeDecodeError):
        return  # joblib writes arrays between the operations, and the head may end within one


def _unpack(head: bytes) -> bytes:
    """The beginning of what joblib compressed, as far as there is any."""
    try:
        if head[:2] == b"BZ":
            return bz2.BZ2Decompressor().decompress(head, _HEAD)
        if head[:6] == b"\xfd7zXZ\x00" or head[:1] == b"]":
            return lzma.LZMADecompressor().decompress(head, _HEAD)
        return zlib.decompressobj(wbits=47).decompress(head, _HEAD)  # zlib and gzip
    except (zlib.error, OSError, lzma.LZMAError, ValueError, EOFError):
        return b""
