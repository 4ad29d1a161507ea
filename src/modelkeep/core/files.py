"""Files that are replaced whole or not at all: a reader sees the old content or the new, also after `kill -9`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to. At the end it takes the place of `path`; after an exception it is gone.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replace_file(Path(folder) / "report") as unfinished:
    ...         _ = unfinished.write_text("all of it")
    ...     (Path(folder) / "report").read_text()
    'all of it'
    """
    _sweep(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        unfinished.touch()
        mode = (path if path.exists() else unfinished).stat().st_mode
        yield unfinished
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        unfinished.chmod(mode)  # some writers make private files
        unfinished.replace(path)
        _sync_folder(path.parent)
    finally:
        with suppress(OSError):
            unfinished.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the rename itself survive a loss of power (only POSIX lets one open a folder)."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sweep(path: Path) -> None:
    """Remove what killed processes left half written, so that a run killed a hundred times does not fill the disk."""
    for left in path.parent.glob(f".{path.name}.*.unfinished"):
        owner = left.name.split(".")[-2]
        if owner.isdigit() and not _runs(int(owner)):
            with suppress(OSError):
                left.unlink()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it runs, under another user
        return True
    return True
