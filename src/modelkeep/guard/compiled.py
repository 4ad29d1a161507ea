"""Loops compiled to machine code: to guard a query takes microseconds, as long as a few calls of numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from modelkeep.errors import MissingExtra

P = ParamSpec("P")
R = TypeVar("R")


def compiled(loop: Callable[P, R]) -> Callable[P, R]:
    """`loop`, compiled at its first call and kept on disk; it runs without the interpreter's lock.

    numba, because a scan that stops at the first match cannot be written as whole-array operations: for 100 classes the
    loops of this package are ten times faster than numpy in a batch, and much more one query at a time.
    """
    try:
        from numba import njit
    except ImportError as missing:
        raise MissingExtra("guard", "numba", "Guarding predictions") from missing
    return cast(Callable[P, R], njit(cache=True, nogil=True)(loop))
