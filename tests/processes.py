"""Processes that tests start, and how long a test waits for them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

# For what hangs only. A process that imports torch has taken more than a minute on a machine at load 15.
PATIENCE = 600.0


def wait_until(happened: Callable[[], bool], *needed: subprocess.Popen[Any]) -> None:
    """Wait for something that must happen, as long as the processes live that are needed for it."""
    end = time.monotonic() + PATIENCE
    while not happened():
        ended = [process.args for process in needed if process.poll() is not None]
        # What happened may be the last thing that the process did.
        assert not ended or happened(), f"It did not happen, and these processes ended: {ended}"
        assert time.monotonic() < end, f"It did not happen in {PATIENCE:g} s."
        time.sleep(0.01)
