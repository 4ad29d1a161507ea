"""Ctrl-C at the right moment: held back until a step is complete, because half a step cannot be resumed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def hold_back(active: bool) -> Iterator[Callable[[], bool]]:
    """The yielded function says whether Ctrl-C was pressed; leaving the block then raises KeyboardInterrupt.

    A second Ctrl-C is not held back. Only the main thread gets signals, and a process that ignores them goes on
    ignoring them; there this does nothing.
    """
    previous = signal.getsignal(signal.SIGINT)
    if not active or not callable(previous) or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, previous)
    if pressed:
        raise KeyboardInterrupt
