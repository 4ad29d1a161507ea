"""Checkpoint: the state of an attack in a folder, so that an attack that was stopped goes on where it was."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

from modelkeep.core.errors import CheckpointError
from modelkeep.training import checkpoint
from modelkeep.training.checkpoint import Snapshot, Wording

SECONDS = 10.0
"""How much work may be lost to `kill -9`, apart from the batch that is under way. Ctrl-C loses only that batch."""

_WORDING = Wording(keeps="unfinished attack", redo="attack", unwritten="Make room or give another path.")
_folder: ContextVar[Path | None] = ContextVar("modelkeep_unfinished_attacks", default=None)


@contextmanager
def resume_from(folder: str | Path | None) -> Iterator[None]:
    """Keep the attacks of the block in `folder` (None: nowhere). Run the same again, and only the rest is done.

    An attack outside such a block writes no file. Inside, each has a file of its own, named after the model, the data
    and all settings; it ends with the same bits as one that was never stopped. Delete the folder when all is done.
    """
    token = _folder.set(None if folder is None else Path(folder))
    try:
        yield
    finally:
        _folder.reset(token)


class Checkpoint:
    """The file of one attack; outside `resume_from` there is none, and nothing is read or written."""

    def __init__(self, identity: Callable[[], dict[str, Any]]) -> None:
        self.path: Path | None = None
        self.written = monotonic()
        if (folder := _folder.get()) is not None:
            self.identity = identity()
            name = sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:16]
            self.path = folder / f"{name}.attack"

    def read(self) -> Snapshot | None:
        """The state that was written last, if there is one."""
        payload = None if self.path is None else checkpoint.read(self.path, _WORDING)
        return None if payload is None else Snapshot.from_bytes(payload, f"The unfinished attack {self.path}", _WORDING)

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return monotonic() - self.written >= SECONDS

    def begin(self, tensors: dict[str, Any], values: dict[str, Any]) -> None:
        """Write for the first time. A folder that cannot be written to is an error before the work, not after it."""
        if self.path is not None:
            checkpoint.write(self.path, Snapshot(tensors, values, self.identity).to_bytes(), _WORDING)
            self.written = monotonic()

    def write(self, tensors: dict[str, Any], values: dict[str, Any]) -> None:
        """Put the state in place in one motion. Where that fails (a full disk) warn: the attack itself can go on."""
        try:
            self.begin(tensors, values)
        except CheckpointError as error:
            self.written = monotonic()
            lost = "The attack goes on. If it is stopped, what it did since the last checkpoint is lost."
            warnings.warn(f"{error} {lost}", stacklevel=2)
