"""The cache: every file that a data set needs is there, complete and checked, or is brought there first."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from modelkeep.core.errors import DataError
from modelkeep.zoo.datasets.archives import copy_whole, decompress
from modelkeep.zoo.datasets.dataset import File, digest
from modelkeep.zoo.datasets.download import Unreachable, bring


def folder(cache: str | Path | None = None) -> Path:
    """Where the cache is: `cache`, else $MODELKEEP_CACHE, else ~/.cache/modelkeep."""
    return Path(cache or os.environ.get("MODELKEEP_CACHE") or "~/.cache/modelkeep").expanduser()


def _is_ready(name: str, wanted: Iterable[File], *, cache: str | Path | None = None) -> bool:
    """Whether all files of the set `name` are in the cache, with the right content."""
    home = folder(cache) / name
    return all((home / file.name).is_file() and file.matches(home / file.name) for file in wanted)


def fetch(
    name: str, wanted: Sequence[File], *, cache: str | Path | None = None, copy: str | Path | None = None
) -> dict[str, Path]:
    """The files that the set `name` wants, by name; what is not in the cache is fetched, or taken from `copy`.

    Safe for processes that do this at the same time: one of them fetches, the others wait for it.
    """
    home = folder(cache) / name
    paths = {file.name: home / file.name for file in wanted}
    if _is_ready(name, wanted, cache=cache):
        return paths
    from filelock import FileLock

    downloads = home / "downloads"
    try:
        downloads.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"Cannot write to the cache ({error}). Set MODELKEEP_CACHE to a folder of yours.") from error
    with FileLock(home / "lock"):
        # Another process may have removed the folder at the end of its own fetch, while we waited.
        downloads.mkdir(exist_ok=True)
        fetching = _Fetch(name, wanted, downloads)
        for file in wanted:
            if _is_ready(name, [file], cache=cache):
                continue
            if copy is None:
                fetching.from_sources(file, paths[file.name])
            else:
                fetching.from_copy(file, paths[file.name], Path(copy).expanduser())
        shutil.rmtree(downloads)
    return paths


class _Fetch:
    """One fetch of one data set. It remembers what was downloaded and what failed: files often share a source."""

    def __init__(self, name: str, wanted: Sequence[File], downloads: Path) -> None:
        self._name = name
        self._wanted = [file.name for file in wanted]
        self._downloads = downloads
        self._failed: dict[str, DataError] = {}

    def from_sources(self, file: File, path: Path) -> None:
        """Try the sources in their order, until one gives the right content."""
        attempts = []
        for source in file.sources:
            try:
                downloaded = self._download(source.where)
                try:
                    _accept(file, path, source.unpack, downloaded)
                except DataError:
                    downloaded.unlink()  # Damaged: fetch it from the start the next time.
                    raise
                return
            except DataError as error:
                attempts.append(f"  {source.where}: {error}")
        raise DataError(
            f"Cannot get the file '{file.name}' of '{self._name}'."
            + ("\n" + "\n".join(attempts) if attempts else " It has no address that a program may download from.")
            + f"\nIf you have a copy, point at it: modelkeep data get {self._name} --from PATH, where PATH is "
            f"{self._wanted[0] if len(self._wanted) == 1 else 'a folder with ' + ', '.join(self._wanted)}, or an "
            f"archive with {'it' if len(self._wanted) == 1 else 'them'}."
        )

    def from_copy(self, file: File, path: Path, copy: Path) -> None:
        """Take the content from the user's own file, archive or folder; the checksum says which is the right one."""
        names = {file.name, file.name + ".gz", *(_last(source.where) for source in file.sources)}
        places = [copy] if copy.is_file() else sorted(p for p in copy.rglob("*") if p.name in names)
        reasons = []
        for place in places:
            for unpack in (*(source.unpack for source in file.sources), copy_whole, decompress):
                try:
                    return _accept(file, path, unpack, place)
                except DataError as error:
                    reasons.append(f"  {place}: {error}")
        raise DataError(
            f"Found no right copy of the file '{file.name}' of '{self._name}' at {copy}."
            + ("\n" + "\n".join(dict.fromkeys(reasons)) if reasons else f" Looked for {', '.join(sorted(names))}.")
        )

    def _download(self, where: str) -> Path:
        host = urlsplit(where).netloc
        for place in (where, host):
            if place in self._failed:
                raise self._failed[place]
        target = self._downloads / f"{hashlib.sha256(where.encode()).hexdigest()[:8]}-{_last(where)}"
        if not target.exists():
            try:
                bring(where, target)
            except DataError as error:
                self._failed[host if isinstance(error, Unreachable) else where] = error
                raise
        return target


def _accept(file: File, path: Path, unpack: Callable[[Path, BinaryIO], None], downloaded: Path) -> None:
    """Put the content of `downloaded` at `path`, whole and right or not at all."""
    new = path.with_name(path.name + ".new")
    try:
        with new.open("wb") as out:
            unpack(downloaded, out)
        if not file.matches(new):
            assert file.checksum is not None
            got = digest(new, file.checksum.partition(":")[0])
            raise DataError(f"the content is not the right one. Expected {file.checksum}, got {got}")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _last(where: str) -> str:
    """The last part of an address or of a package's name."""
    return where.rpartition("/")[2].rpartition(":")[2]
