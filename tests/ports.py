"""Ports on loopback for servers that tests start."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

# Below the ports that Linux and macOS give to connections (32768 or 49152 on), so that no connection takes one.
_PORTS = range(15_000, 32_000)
_draw = random.Random(os.urandom(8))  # not a test's own seed: two processes must not draw alike
_held: list[IO[str]] = []


def free_port() -> int:
    """A port at which no server listens, and which no other test draws as long as this process lives."""
    folder = Path(tempfile.gettempdir()) / f"modelkeep-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    while True:
        port = _draw.choice(_PORTS)
        lock = (folder / str(port)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.create_server(("127.0.0.1", port)):
                pass
        except OSError:
            lock.close()
        else:
            _held.append(lock)
            return port
