"""Loops compiled to machine code: to guard a query takes microseconds, as long as a few calls of numpy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

from modelkeep.core.errors import MissingExtra

P = ParamSpec("P")
R = TypeVar("R")
FOLDER = Path(__file__).parent  # all loops that call each other are below it


def compile_loop(loop: Callable[P, R]) -> Callable[P, R]:
    """`loop`, compiled at its first call and kept on disk; it runs without the interpreter's lock.

    numba, because a scan that stops at the first match cannot be written as whole-array operations: for 100 classes the
    loops of this package are ten times faster than numpy in a batch, and much more one query at a time.
    """
    try:
        from numba import njit
    except ImportError as missing:
        raise MissingExtra("guard", "numba", "Guarding predictions") from missing
    fast = njit(cache=True, nogil=True)(loop)
    if hasattr(fast, "_cache"):  # not where numba is told to compile nothing
        # numba looks only at the loop's own file for changes. What it keeps has the loops of other files inside, and
        # old ones would run on unseen: confidences of −1 were found by that.
        fast._cache._cache_file._source_stamp = _sources()
    return cast(Callable[P, R], fast)


@cache
def _sources() -> str:
    """The hash of all files with compiled loops."""
    files = [path.read_bytes() for path in sorted(FOLDER.rglob("*.py"))]
    return sha256(b"\0".join(file for file in files if b"@compile_loop" in file)).hexdigest()
