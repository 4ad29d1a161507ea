"""What many trials of a study need is made once, in a folder that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from modelkeep.study.trial import canonical, code_version, name_of, workdir


@contextmanager
def shared_folder(role: str, settings: Any, made_by: Callable[..., object]) -> Iterator[Path]:
    """The folder of what `role`, the JSON value `settings` and the code of `made_by` decide, for one process at a time.

    The first trial that comes makes the thing there; the others wait, find it done, and take it over. Windows has no
    such lock; there two may make the same thing, and end with the same bits.
    """
    decided = canonical([settings, code_version(name_of(made_by))])  # as of a trial: a change of its module counts
    kept = workdir().parent / f"{role}-{sha256(decided.encode()).hexdigest()[:16]}"
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / "lock").open("w") as file:
        with suppress(ImportError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield kept
