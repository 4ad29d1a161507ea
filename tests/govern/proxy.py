"""A TCP proxy on loopback that damages, holds up and cuts what passes through it, once for each order."""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Damage:
    """What happens to the next bytes that come at once and are at least so many.

    `flip` turns one bit, `cut` ends the connection in the middle of them, `stall` holds them (and all that follows)
    for some `seconds`, `crumble` sends them byte by byte for as long.
    """

    act: Literal["flip", "cut", "stall", "crumble"]
    seconds: float = 0.0
    least: int = 1


class Proxy:
    """Stands before a party: listens at `address`, and passes everything on to `target`, a port."""

    def __init__(self, address: str, target: int, seed: int = 0) -> None:
        self.done: list[Damage] = []
        self._target, self._random = target, random.Random(seed)
        self._orders: list[Damage] = []
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", int(address.rpartition(":")[2])))
        self._ends: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def order(self, damage: Damage) -> None:
        """Let it happen to the next bytes that are enough."""
        with self._lock:
            self._orders.append(damage)

    def close(self) -> None:
        """Let nothing through any more."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            ends = list(self._ends)
        for end in ends:
            _shut(end)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._socket.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target), 5.0)
            except OSError:  # the party is not there
                near.close()
                continue
            far.settimeout(None)
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._ends |= {near, far}
            threading.Thread(target=self._both, args=(near, far), daemon=True).start()

    def _both(self, near: socket.socket, far: socket.socket) -> None:
        back = threading.Thread(target=self._pump, args=(far, near), daemon=True)
        back.start()
        self._pump(near, far)
        back.join()
        with self._lock:
            self._ends -= {near, far}
        near.close()
        far.close()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                damage = self._take(len(content))
                if damage is None:
                    sink.sendall(content)
                elif not self._damage(damage, bytearray(content), sink):
                    break
        _shut(source)
        _shut(sink)

    def _take(self, size: int) -> Damage | None:
        with self._lock:
            found = next((damage for damage in self._orders if size >= damage.least), None)
            if found is not None:
                self._orders.remove(found)
                self.done.append(found)
            return found

    def _damage(self, damage: Damage, content: bytearray, sink: socket.socket) -> bool:
        """Whether the connection goes on."""
        place = self._random.randrange(len(content))
        if damage.act == "cut":
            sink.sendall(content[:place])
            return False
        if damage.act == "flip":
            content[place] ^= 1 << self._random.randrange(8)
        elif damage.act == "stall":
            time.sleep(damage.seconds)
        else:
            until = time.monotonic() + damage.seconds
            while content and time.monotonic() < until:
                sink.sendall(content[:1])
                del content[:1]
                time.sleep(0.001)
        sink.sendall(content)
        return True


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
