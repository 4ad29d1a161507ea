"""Job: a command that was started from the application, and how it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["running", "done", "failed", "stopped", "interrupted"]
_STOPPED = 130
_DONE = (0, 1, 3)  # a gate of CI that does not hold is an answer, too


@dataclass(frozen=True)
class Job:
    """One command: its words after `modelkeep`, its process, its end.

    `born` is when the process began by the machine's own count: another process may get the same number later. `code`
    is its exit code; None while it runs, and where its process ended without saying so.
    """

    id: int
    words: tuple[str, ...]
    line: str
    out: str
    started: float
    pid: int
    born: float
    ended: float | None = None
    code: int | None = None

    @property
    def state(self) -> State:
        """How it stands. One that was killed, or whose machine went down, was interrupted."""
        if self.ended is None:
            return "running"
        if self.code is None or self.code < 0:
            return "interrupted"
        if self.code == _STOPPED:
            return "stopped"
        return "done" if self.code in _DONE else "failed"
