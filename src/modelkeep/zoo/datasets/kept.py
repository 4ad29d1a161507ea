"""What is kept about a user's files between runs, as long as they stay the same: fingerprints, unpacked arrays."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from modelkeep.core.errors import DataError
from modelkeep.core.files import replace_file
from modelkeep.zoo.datasets.cache import folder


def stamp(paths: Iterable[Path]) -> str:
    """A hash of the names, sizes and times of change of files: another one where their content may be another."""
    digest = sha256()
    for path in paths:
        stat = path.stat()
        digest.update(f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
    return digest.hexdigest()


class Kept(MutableMapping[str, str]):
    """Fingerprints by what was asked, in a file of the cache. They end with the `stamp` under which they were made.

    A cache that cannot be written to only means that they are computed again.
    """

    def __init__(self, stamp: str, cache: str | Path | None = None) -> None:
        self._path = folder(cache) / "fingerprints" / f"{stamp}.json"
        self._known: dict[str, str] = {}
        with suppress(OSError, ValueError):
            found = json.loads(self._path.read_text())
            self._known = {str(key): str(value) for key, value in found.items()}

    def __getitem__(self, key: str) -> str:
        return self._known[key]

    def __setitem__(self, key: str, value: str) -> None:
        self._known[key] = value
        self._write()

    def __delitem__(self, key: str) -> None:
        del self._known[key]
        self._write()

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def _write(self) -> None:
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with replace_file(self._path) as new:
                new.write_text(json.dumps(self._known, indent=1))


def made_once(name: str, cache: str | Path | None = None) -> tuple[Path, bool]:
    """Where in the cache a file called `name` is made, and whether it is there already."""
    path = folder(cache) / "unpacked" / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"Cannot write to the cache ({error}). Set MODELKEEP_CACHE to a folder of yours.") from error
    return path, path.exists()


def unpack_member(path: Path, member: str, cache: str | Path | None = None) -> Path:
    """A compressed member of an archive, as a file of the cache. It is unpacked once."""
    unpacked, ready = made_once(f"{stamp([path])}-{Path(member).name}", cache)
    if not ready:
        with zipfile.ZipFile(path) as archive:
            wanted = archive.getinfo(member).file_size
        free = shutil.disk_usage(unpacked.parent).free
        if wanted > free:
            raise DataError(
                f"'{member}' of {path} unpacks to {wanted:,} bytes, and {unpacked.parent} has {free:,} left. "
                "Set MODELKEEP_CACHE to a folder with more space, if that size is right."
            )
        try:
            with (
                zipfile.ZipFile(path) as archive,
                archive.open(member) as packed,
                replace_file(unpacked) as new,
                new.open("wb") as out,
            ):
                shutil.copyfileobj(packed, out, 2**20)
        except (OSError, zipfile.BadZipFile) as error:
            raise DataError(f"Cannot unpack '{member}' of {path} to {unpacked.parent}: {error}.") from error
    return unpacked
