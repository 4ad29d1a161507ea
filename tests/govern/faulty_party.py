"""A party in a process of its own that, on order, loses or doubles what it sends, runs out of disk, or dies."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import torch
from tqdm import tqdm  # type: ignore[import-untyped]

from govern.parties import digits
from modelkeep.core import progress
from modelkeep.core.errors import GovernError
from modelkeep.govern.folder import Folder
from modelkeep.govern.session.leader import Leader
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.runs import evaluate, train
from modelkeep.govern.session.service import serve
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.endpoint import Endpoint
from modelkeep.govern.wire.message import Message

# Importing torch takes seconds: one process does it once, and every party is forked from that one.
_FORK = multiprocessing.get_context("forkserver")
_FORK.set_forkserver_preload(
    ["modelkeep.govern.session.runs", "modelkeep.govern.session.service", "sklearn.datasets", "torch._dynamo"]
)


@dataclass(frozen=True)
class Order:
    """What goes wrong, once, when the party sends its next message of this `kind` ("": of any), after `skip` others.

    `drop` loses it, `late` sends it `seconds` later (others overtake it), `twice` sends it again, `die before` and
    `die after` are `kill -9` at that moment. `die writing` is one in the middle of the next checkpoint, and `full` a
    disk that takes nothing for some `seconds`; these two wait for no message.
    """

    act: Literal["drop", "late", "twice", "die before", "die after", "die writing", "full"]
    kind: str = ""
    skip: int = 0
    seconds: float = 0.0


class Faulty:
    """A handle on the process: what was ordered, and what has happened."""

    def __init__(self, folder: Path, port: int, *, leads: bool, n: int = 256) -> None:
        self.folder, self.leads = folder, leads
        self._arguments = (folder, port, leads, n)
        self.orders: list[Order] = []
        self.done: list[Order] = []
        self.starts = 0
        self.start()

    def start(self) -> None:
        """Start the process, or start it again; orders that were not carried out yet are given again."""
        self.pipe, theirs = _FORK.Pipe()
        self.process: BaseProcess = _FORK.Process(target=_main, args=(*self._arguments, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.starts += 1
        for order in self.orders:
            self.pipe.send(order)

    def order(self, order: Order) -> None:
        """Let something go wrong."""
        self.orders.append(order)
        with suppress(OSError):  # it has just died; the next process gets all orders
            self.pipe.send(order)

    def heard(self) -> list[tuple[str, Any]]:
        """What the process has said since."""
        found = []
        with suppress(EOFError, OSError):
            while self.pipe.poll():
                kind, value = self.pipe.recv()
                if kind == "did":
                    self.orders.remove(value)
                    self.done.append(value)
                found.append((kind, value))
        return found

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, number)

    def end(self) -> None:
        """Kill it for good."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _main(folder: Path, port: int, leads: bool, n: int, pipe: Pipe) -> None:
    """The process: serves until it is killed, or leads the training to its end and then judges the model."""
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.register(signal.SIGUSR1)
    torch.set_num_threads(1)
    tqdm.set_lock(threading.RLock())  # torch.fx makes one that outlives a process which is killed
    faults = _Faults(pipe)
    _listen_at(port)
    try:
        data = digits(n)
        with Party(Folder(folder), data=[data]) as party:
            faults.say("ready", "")
            if leads:
                leader = Leader(party, patience=120.0, tell=lambda text: faults.say("told", text))
                with progress.watch(faults):
                    train(leader)
                judged = evaluate(leader, data, batch=n // 3)
                faults.say("over", (judged.accuracy.value, judged.loss))
            else:
                serve(party, threading.Event())
    except GovernError as error:
        sys.stderr.write(f"ended by {error!r}\n")
        faults.say("failed", repr(error))


def _listen_at(port: int) -> None:
    """Listen here, and not at the agreement's address: a proxy stands there."""
    listen = Endpoint.listen
    patch.object(Endpoint, "listen", lambda endpoint, address: listen(endpoint, f"127.0.0.1:{port}")).start()


@dataclass(eq=False)
class _Waiting:
    """An order, and how many messages it still lets pass."""

    order: Order
    left: int


class _Faults:
    """The orders that wait for their moment, and the moments."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe, self._lock = pipe, threading.Lock()
        self._waiting: list[_Waiting] = []
        self._send, self._write = Connection.send, Path.write_bytes
        patch.object(Connection, "send", lambda connection, message: self._sending(connection, message)).start()
        patch.object(Path, "write_bytes", lambda path, content: self._writing(path, content)).start()
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, kind: str, value: Any) -> None:
        with self._lock:
            self._pipe.send((kind, value))

    # ---- progress, as the leader's run reports it

    def opened(self, task: progress.Task) -> None: ...

    def changed(self, task: progress.Task) -> None:
        self.say("step", int(task.done))

    def closed(self, task: progress.Task) -> None: ...

    # ---- orders

    def _listen(self) -> None:
        try:
            while True:
                order: Order = self._pipe.recv()
                if order.act == "full":
                    self._fill(order)
                else:
                    with self._lock:
                        self._waiting.append(_Waiting(order, order.skip))
        except (EOFError, OSError):
            os._exit(0)  # who started this is gone

    def _due(self, kind: str, acts: set[str]) -> Order | None:
        with self._lock:
            for waiting in self._waiting:
                order = waiting.order
                if order.act not in acts or order.kind not in ("", kind):
                    continue
                if waiting.left == 0:
                    self._waiting.remove(waiting)
                    self._pipe.send(("did", order))
                    return order
                waiting.left -= 1
        return None

    def _sending(self, connection: Connection, message: Message) -> None:
        order = self._due(message.kind, {"drop", "late", "twice", "die before", "die after"})
        if order is None:
            self._send(connection, message)
        elif order.act == "late":
            kept = Message(message.kind, message.header, tuple(tensor.clone() for tensor in message.tensors))
            threading.Timer(order.seconds, self._send_late, (connection, kept)).start()
        elif order.act == "die before":
            os.kill(os.getpid(), signal.SIGKILL)
        elif order.act != "drop":
            self._send(connection, message)
            if order.act == "die after":
                os.kill(os.getpid(), signal.SIGKILL)
            self._send(connection, message)

    def _send_late(self, connection: Connection, message: Message) -> None:
        with suppress(GovernError):
            self._send(connection, message)

    def _writing(self, path: Path, content: bytes) -> int:
        if path.name.endswith(".unfinished") and self._due("", {"die writing"}) is not None:
            self._write(path, content[: len(content) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return self._write(path, content)

    def _fill(self, order: Order) -> None:
        """Let no file grow for a while."""
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
        threading.Timer(order.seconds, resource.setrlimit, (resource.RLIMIT_FSIZE, (most, most))).start()
        self.say("did", order)
