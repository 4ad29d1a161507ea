"""ProgressFile: the progress of a running trial, in a file of its folder.

A file and not a message, so that it also comes from another machine of a cluster, where the folders are shared.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from pathlib import Path

from modelkeep.core.progress import Task
from modelkeep.study.folder import PROGRESS_FILE

_EVERY = 1.0  # seconds


class ProgressFile:
    """Watches the progress of a trial and writes its outermost task to the file, once a second at most."""

    def __init__(self, folder: str | Path) -> None:
        self._path = Path(folder) / PROGRESS_FILE
        self._open: list[Task] = []
        self._written = -math.inf

    def opened(self, task: Task) -> None:
        self._open.append(task)

    def changed(self, task: Task) -> None:
        now = time.monotonic()
        if now - self._written >= _EVERY:
            self._written = now
            outermost = self._open[0]
            share = f"{outermost.done:,.0f}" + ("" if outermost.total is None else f"/{outermost.total:,.0f}")
            with suppress(OSError):  # a full disk ends a trial by its own error, not by this one
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._path.write_text(f"{outermost.name} {share} {outermost.note}".rstrip(), encoding="utf-8")

    def closed(self, task: Task) -> None:
        self._open.remove(task)


def read_progress(folder: str | Path) -> str:
    """What the trial of this folder last wrote; empty where it has not written anything yet."""
    try:
        return (Path(folder) / PROGRESS_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):  # it may be half written
        return ""


def remove_progress(folder: str | Path) -> None:
    """Remove the file: the progress of one attempt does not hold for the next, nor after the end."""
    with suppress(OSError):
        (Path(folder) / PROGRESS_FILE).unlink()
