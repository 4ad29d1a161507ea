"""Take one named member out of a tar, zip, wheel or Debian package, without unpacking anything else to disk."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, BinaryIO

from modelkeep.core.errors import DataError

# How compressed files begin, and what reads them.
_DECOMPRESSORS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}


def copy_whole(path: Path, out: BinaryIO) -> None:
    """The downloaded file itself, byte for byte."""
    with path.open("rb") as file:
        shutil.copyfileobj(file, out)


def decompress(path: Path, out: BinaryIO) -> None:
    """The downloaded file without its gzip, bzip2 or xz wrapping, if it has one."""
    with path.open("rb") as file:
        _copy(file, out)


def unpack_member(name: str) -> Callable[[Path, BinaryIO], None]:
    """The member called `name` of the downloaded archive, without its own compression."""

    def unpack(path: Path, out: BinaryIO) -> None:
        with open_member(path, name) as file:
            _copy(file, out)

    return unpack


def join_members(names: Sequence[str]) -> Callable[[Path, BinaryIO], None]:
    """The members called `names` of the downloaded tar file, one after the other: a file that was cut in pieces."""

    def unpack(path: Path, out: BinaryIO) -> None:
        pieces: dict[str, bytes] = {}
        try:
            with open_tar(path) as tree:
                # One pass: to look for one piece after the other would decompress the archive as many times.
                for info in tree:
                    found = tree.extractfile(info) if info.name in names else None
                    if found is not None:
                        pieces[info.name] = found.read()
        except (tarfile.TarError, EOFError, OSError) as error:
            raise DataError(f"{path.name} is not an archive that can be read, or is damaged: {error}.") from error
        for name in names:
            if name not in pieces:
                raise DataError(f"{path.name} does not hold '{name}'.")
            out.write(pieces[name])

    return unpack


@contextmanager
def open_member(archive: Path, name: str) -> Iterator[IO[bytes]]:
    """Open the member `name` of an archive for reading."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed, packed.open(name) as file:
                yield file
            return
        with open_tar(archive) as tree:
            found = tree.extractfile(_plain(tree, name))
            assert found is not None
            yield found
    except KeyError:
        raise DataError(f"{archive.name} does not hold '{name}'.") from None
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DataError(f"{archive.name} is not an archive that can be read, or is damaged: {error}.") from error


@contextmanager
def open_tar(archive: Path) -> Iterator[tarfile.TarFile]:
    """Open a tar file, or the tar inside a Debian package."""
    with archive.open("rb") as file:
        inner = _debian_data(archive, file) if file.read(8) == b"!<arch>\n" else file
        inner.seek(0)
        with tarfile.open(fileobj=inner, mode="r:*") as packed:
            yield packed


def _plain(packed: tarfile.TarFile, name: str) -> tarfile.TarInfo:
    """The regular file called `name`; Debian writes `./name`."""
    for info in packed:
        if info.isfile() and info.name.removeprefix("./") == name:
            return info
    raise KeyError(name)


def _debian_data(archive: Path, file: BinaryIO) -> BinaryIO:
    """The file tree of a Debian package: the member data.tar.* of an ar archive.

    An ar header is 60 bytes: the name in 16, the size in decimal at 48..58; members start at even offsets.
    """
    while header := file.read(60):
        name, size = header[:16].decode("ascii", "replace").rstrip(" /"), header[48:58]
        if not size.strip().isdigit():
            break
        if name == "data.tar.zst":  # Ubuntu's; Python reads Zstandard only from 3.14 on, dpkg-deb always does.
            return _with_dpkg(archive)
        if name.startswith("data.tar"):
            return io.BytesIO(file.read(int(size)))
        file.seek(int(size) + int(size) % 2, io.SEEK_CUR)
    raise DataError(f"{archive.name} is not a complete Debian package: it has no data.tar.")


def _with_dpkg(archive: Path) -> BinaryIO:
    command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    try:
        return io.BytesIO(subprocess.run(command, check=True, capture_output=True).stdout)
    except (OSError, subprocess.CalledProcessError) as error:
        raise DataError(f"{archive.name} needs dpkg-deb to be unpacked, which failed: {error}.") from error


def _copy(file: IO[bytes], out: BinaryIO) -> None:
    """Copy without compression. What the file is, its first bytes say, not its name."""
    start = file.read(6)
    file.seek(0)
    kinds = [kind for magic, kind in _DECOMPRESSORS.items() if start.startswith(magic)]
    try:
        with kinds[0](file, "rb") if kinds else nullcontext(file) as plain:
            shutil.copyfileobj(plain, out)
    except (EOFError, OSError, lzma.LZMAError) as error:
        raise DataError(f"The compressed file is cut off or damaged: {error}.") from error
