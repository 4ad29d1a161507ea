"""Telling: what a running trial says of its progress, left in its folder for whoever watches the study.

A file and no message, so that it also comes from another machine of a cluster, where the folders are shared.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from pathlib import Path

from modelkeep.core.progress import Task

_EVERY = 1.0  # seconds
_FILE = "progress.txt"


class Telling:
    """Watches the progress of a trial and writes down now and then how its outermost task stands."""

    def __init__(self, folder: str | Path) -> None:
        self._folder, self._path = Path(folder), Path(folder) / _FILE
        self._open: list[Task] = []
        self._told = -math.inf

    def opened(self, task: Task) -> None:
        self._open.append(task)

    def changed(self, task: Task) -> None:
        now = time.monotonic()
        if now - self._told >= _EVERY:
            self._told = now
            outermost = self._open[0]
            share = f"{outermost.done:,.0f}" + ("" if outermost.total is None else f"/{outermost.total:,.0f}")
            with suppress(OSError):  # a full disk ends a trial by its own words, not by these
                self._folder.mkdir(parents=True, exist_ok=True)
                self._path.write_text(f"{outermost.name} {share} {outermost.note}".rstrip(), encoding="utf-8")

    def closed(self, task: Task) -> None:
        self._open.remove(task)


def told(folder: str | Path) -> str:
    """What the trial of this folder last said; nothing where it has not said anything yet."""
    try:
        return (Path(folder) / _FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):  # it may just be written
        return ""


def forget(folder: str | Path) -> None:
    """What an attempt said does not hold for the next one, nor after the end."""
    with suppress(OSError):
        (Path(folder) / _FILE).unlink()
