"""ControlSocket: where the process that serves in a folder takes the requests of commands in that folder.

A Unix socket that only its owner may open. A command sends one line of JSON, its `Request`. Lines of JSON come back:
what it waits for, its progress and the outcome, and after that the raw numbers of an inference. A command that hangs up
ends its request, and not the process that serves.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from modelkeep.core import progress
from modelkeep.core.errors import GovernError, InputError, ModelKeepError, PartyBusy
from modelkeep.core.signing import canonical
from modelkeep.govern.session.requests import Outcome, Request
from modelkeep.govern.session.service import Call

LONGEST_REQUEST = 64 * 1024  # bytes
_LONGEST_ADDRESS = 100  # bytes of a socket's path; the system takes 104 to 108
_MOST_CALLS = 16  # commands that wait at once
_MOST_UNREAD = 1000  # lines that a command has not read yet; then the next ones are left out, but for the last
_OWNERS = (0,)  # users besides the own one; root gets in everywhere
_EVERY = 0.2  # seconds between two lines about the same task


class ControlSocket:
    """The socket at `path`, for the time that one process has the folder to itself, so a file there is a dead one's.

    It keeps the calls in the order in which they came (`Calls` of `service`).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._calls: list[_CommandCall] = []
        self._changing = threading.Lock()
        self.wake: Callable[[], None] = lambda: None
        try:
            if path.exists() and not stat.S_ISSOCK(path.lstat().st_mode):
                raise GovernError(f"'{path}' is not a socket, so no other one can be made there. Move it away.")
            path.unlink(missing_ok=True)
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            with shorten_address(path) as address:
                self._socket.bind(address)
            path.chmod(0o600)  # before `listen`: until then nobody gets in
            self._socket.listen(_MOST_CALLS)
        except OSError as error:
            raise GovernError(f"No commands can be taken at '{path}': {error}.") from error
        threading.Thread(target=self._accept, name="control", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for call in self._calls:
            call.fail(GovernError("The process that served was ended."))

    def first(self) -> Call | None:
        """The call that waits longest."""
        with self._changing:
            return self._calls[0] if self._calls else None

    def remove(self, call: Call) -> None:
        """Be done with a call."""
        with self._changing:
            self._calls = [each for each in self._calls if each is not call]

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:
                if self._socket.fileno() < 0 or not self._path.exists():
                    return  # it was closed
                time.sleep(_EVERY)  # out of descriptors, which passes when connections end
                continue
            threading.Thread(target=self._take, args=(line,), name="command", daemon=True).start()

    def _take(self, line: socket.socket) -> None:
        """Read a request, and put it behind the others."""
        try:
            require_same_user(line)
            call = _CommandCall(line, _read_request(line))
        except (GovernError, InputError, OSError) as error:
            with contextlib.suppress(OSError):
                line.sendall(_line(_describe_failure(error)))
            line.close()
            return
        with self._changing:
            before = len(self._calls)
            if before < _MOST_CALLS:
                self._calls.append(call)
        if before >= _MOST_CALLS:
            call.fail(PartyBusy(f"{before} commands wait already. Try again when some have ended."))
        elif before:
            call.tell(f"{before} other commands go first.")
        self.wake()


class _CommandCall:
    """A command at the other end of a line. What it does not read fast enough is kept for it, up to a bound."""

    def __init__(self, line: socket.socket, request: Request) -> None:
        self._line, self.request, self.since = line, request, time.monotonic()
        self._gone = threading.Event()
        self._told: set[str] = set()
        self._due: dict[int, float] = {}
        self._unsent: SimpleQueue[bytes | None] = SimpleQueue()
        threading.Thread(target=self._watch, name="command's end", daemon=True).start()
        threading.Thread(target=self._write, name="to command", daemon=True).start()

    def is_gone(self) -> bool:
        """Whether the command hung up."""
        return self._gone.is_set()

    def tell(self, text: str) -> None:
        """Say what it waits for, once."""
        if text not in self._told and self._unsent.qsize() < _MOST_UNREAD:
            self._told.add(text)
            self._put({"kind": "told", "text": text})

    def finish(self, outcome: Outcome) -> None:
        """Send what came of the request; no more follows."""
        logits = None if outcome.logits is None else _to_array(outcome.logits)
        about = None if logits is None else {"shape": list(logits.shape), "dtype": logits.dtype.str}
        told = None if outcome.result is None else outcome.result.to_json()
        self._put({"kind": "outcome", "result": told, "logits": about, "classes": list(outcome.classes)})
        if logits is not None:
            self._unsent.put(logits.tobytes())
        self._unsent.put(None)

    def fail(self, error: Exception) -> None:
        """Send why nothing came of it; no more follows."""
        self._put(_describe_failure(error))
        self._unsent.put(None)

    # ---- the progress, as `progress.Watcher`

    def opened(self, task: progress.Task) -> None:
        """A task begins."""
        self._due[id(task)] = 0.0
        self.changed(task)

    def changed(self, task: progress.Task) -> None:
        """A task goes on; not every step is sent."""
        if time.monotonic() >= self._due[id(task)] and self._unsent.qsize() < _MOST_UNREAD:
            self._due[id(task)] = time.monotonic() + _EVERY
            self._put_task(task, ended=False)

    def closed(self, task: progress.Task) -> None:
        """A task ends."""
        self._due.pop(id(task), None)
        self._put_task(task, ended=True)

    def _put_task(self, task: progress.Task, *, ended: bool) -> None:
        told = {"id": id(task), "name": task.name, "total": task.total, "done": task.done, "note": task.note}
        self._put({"kind": "progress", **told, "ended": ended})

    def _put(self, values: dict[str, Any]) -> None:
        self._unsent.put(_line(values))

    def _watch(self) -> None:
        """Wait for the end of the line: after its request a command says no more."""
        with contextlib.suppress(OSError):
            while self._line.recv(4096):
                pass
        self._gone.set()

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            while (content := self._unsent.get()) is not None:
                self._line.sendall(content)
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)  # the command has read all when it sees this end
        self._gone.wait()
        self._line.close()


@contextlib.contextmanager
def shorten_address(path: Path) -> Iterator[str]:
    """The path of a socket as the system takes it: a long one goes by way of its folder's descriptor (Linux)."""
    if len(os.fsencode(path.absolute())) <= _LONGEST_ADDRESS:
        yield str(path.absolute())
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def require_same_user(line: socket.socket) -> None:
    """Refuse another user at the other end, where the system says who it is (Linux); the file's mode does so too."""
    if not sys.platform.startswith("linux"):
        return
    _, user, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if user not in (os.getuid(), *_OWNERS):
        raise GovernError(f"The user {user} may not use this folder.")


def _read_request(line: socket.socket) -> Request:
    text = b""
    while not text.endswith(b"\n"):
        some = line.recv(4096)
        text += some
        if not some or len(text) > LONGEST_REQUEST:
            raise GovernError("A request is one line of JSON.")
    try:
        return TypeAdapter(Request).validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        raise GovernError(f"This is not a request: {error}") from error


def _describe_failure(error: Exception) -> dict[str, Any]:
    known = error if isinstance(error, ModelKeepError) else GovernError(f"It could not go on: {error!r}.")
    return {"kind": "failed", "error": type(known).__name__, "text": str(known)}


def _line(values: dict[str, Any]) -> bytes:
    return canonical(values) + b"\n"


def _to_array(logits: Tensor) -> Any:
    """The numbers as they are sent: 4 or 8 bytes each, the lowest first."""
    array = logits.detach().cpu().numpy()
    return array.astype("<f8" if array.dtype.itemsize == 8 else "<f4")
