"""Folders of trials: the one in which a trial keeps its checkpoints, and those that many trials share.

What lies in a folder was begun by some code. Other code does not continue it: it finds the folder empty.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from modelkeep.core.errors import StudyError
from modelkeep.core.files import replace_file
from modelkeep.study.closure import changed_files, closure_of
from modelkeep.study.trials import canonical

PROGRESS_FILE = "progress.txt"
_CODE_FILE = "code.json"
_STAYING = (PROGRESS_FILE, "lock")


@dataclass
class _Current:
    path: Path
    home: str
    checked: bool = False


_current: ContextVar[_Current | None] = ContextVar("modelkeep_workdir", default=None)


def workdir() -> Path:
    """The directory of the trial that is running; the same one when the trial is tried again.

    A long training passes `fit(..., checkpoint=workdir() / "checkpoint")` and goes on where it was stopped.
    """
    current = _current.get()
    if current is None:
        raise StudyError("No trial is running here. To try a function by hand: `with working_in(directory): …`.")
    current.path.mkdir(parents=True, exist_ok=True)
    if current.home and not current.checked:
        _keep_to_code(current.path, current.home)
        current.checked = True
    return current.path


@contextmanager
def working_in(directory: str | Path, home: str = "") -> Iterator[None]:
    """Make `directory` the `workdir()` of the block; where `home` is given, other code than its own finds it empty."""
    token = _current.set(_Current(Path(directory), home))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def shared_folder(role: str, settings: Any) -> Iterator[Path]:
    """The folder of what `role` and the JSON value `settings` decide, for one process at a time.

    The first trial that comes makes the thing there; the others wait, find it done, and take it over. Windows has no
    such lock; there two may make the same thing, and end with the same bits.
    """
    shared = workdir().parent / f"{role}-{sha256(canonical(settings).encode()).hexdigest()[:16]}"
    shared.mkdir(parents=True, exist_ok=True)
    with (shared / "lock").open("w") as file:
        with suppress(ImportError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        current = _current.get()
        home = current.home if current is not None else ""
        new = _keep_to_code(shared, home)
        yield shared
        if new:  # what was imported while it was made belongs to its code too
            _note_code(shared, home)


def _keep_to_code(folder: Path, home: str) -> bool:
    """Empty the folder where other code used it, and note the code of now; whether there was nothing to keep."""
    try:
        kept = json.loads((folder / _CODE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        kept = None
    if kept is not None and not changed_files(kept):
        return False
    for path in folder.iterdir() if kept is not None else ():
        if path.name not in _STAYING:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    _note_code(folder, home)
    return True


def _note_code(folder: Path, home: str) -> None:
    with replace_file(folder / _CODE_FILE) as unfinished:
        unfinished.write_text(json.dumps(closure_of(home)), encoding="utf-8")
