"""Links: a party's connections to the others, what came over them, and the answers that it waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from queue import Empty, Queue
from typing import Any

from modelkeep.core.errors import ConsentPending, ConsentRefused, GovernError, PartyUnavailable, WireError
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.identity import Identity
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.endpoint import Endpoint
from modelkeep.govern.wire.message import Message

Came = tuple[Connection, Message | GovernError]
_IDLE = 8  # connections of one party that it is not spoken to by; one more closes the oldest
_WAITING = 256  # messages that wait to be worked on; whoever sends more is made to wait by TCP


class Links:
    """One connection to each party, at most, that this one speaks to; every connection is read by its own thread.

    Args:
        agreement: Who the parties are, and where.
        identity: Who this one is.
        at_once: Answers a message on the thread that read it, if it returns True; all others go to the inbox.
        on_refused: Told of everybody who was refused.
    """

    def __init__(
        self,
        agreement: Agreement,
        identity: Identity,
        at_once: Callable[[Connection, Message], bool],
        on_refused: Callable[[str], None],
    ) -> None:
        self._agreement, self._at_once, self._on_refused = agreement, at_once, on_refused
        members = {party.name: party.certificate for party in agreement.parties}
        self._endpoint = Endpoint(identity, members, wire=agreement.wire, on_refused=on_refused)
        self._inbox: Queue[Came] = Queue(_WAITING)
        self._open: dict[str, Connection] = {}
        self._all: list[Connection] = []
        self._before = [0, 0]  # bytes sent and received over connections that are gone
        self._answers: dict[tuple[int, int], Future[Message]] = {}
        self._questions = count()
        self._lock = threading.Lock()
        self._listener = self._endpoint.listen(agreement.member(identity.name).address)
        self.address = self._listener.address
        threading.Thread(target=self._accept, name="accept", daemon=True).start()

    def came(self, timeout: float | None) -> Came | None:
        """The next message to work on, or the loss of a connection; None where nothing comes in time."""
        try:
            return self._inbox.get(timeout=timeout)
        except Empty:
            return None

    def dial(self, name: str, timeout: float) -> Connection:
        """A new connection to a party, by which it is spoken to from now on."""
        connection = self._endpoint.connect(name, self._agreement.member(name).address, timeout)
        self._read_on(connection)
        self.speak_by(connection)
        return connection

    def speak_by(self, connection: Connection) -> None:
        """Speak to a party by this connection, unless it is lost already; an older one is closed."""
        with self._lock:
            if connection not in self._all:
                return
            old = self._open.get(connection.peer)
            self._open[connection.peer] = connection
        if old is not None and old is not connection:
            old.close()

    def to(self, name: str) -> Connection | None:
        """The connection to a party, if there is one."""
        return self._open.get(name)

    def send(self, name: str, message: Message) -> None:
        """Send to a party that is connected."""
        connection = self._open.get(name)
        if connection is None:
            raise PartyUnavailable(f"There is no connection to '{name}' any more.")
        connection.send(message)

    def ask(self, name: str, kind: str, header: dict[str, Any]) -> Future[Message]:
        """Send a message that is answered."""
        connection = self._open.get(name)
        if connection is None:
            raise PartyUnavailable(f"There is no connection to '{name}' any more.")
        number = next(self._questions)
        answer: Future[Message] = Future()
        with self._lock:
            self._answers[id(connection), number] = answer
        connection.send(Message(kind, {**header, "question": number}))
        return answer

    def drop(self) -> None:
        """Close all connections, and forget what they brought."""
        with self._lock:
            connections, self._all, self._open = self._all, [], {}
            self._count(connections)
        for connection in connections:
            connection.close()
        with suppress(Empty):
            while True:
                self._inbox.get_nowait()

    def close(self) -> None:
        """Listen no more, and close all connections."""
        self._listener.close()
        self.drop()

    @property
    def bytes(self) -> tuple[int, int]:
        """Bytes sent and received since the party started."""
        with self._lock:
            sent, received = self._before
            return sent + sum(c.sent_bytes for c in self._all), received + sum(c.received_bytes for c in self._all)

    def _count(self, gone: Sequence[Connection]) -> None:
        self._before[0] += sum(connection.sent_bytes for connection in gone)
        self._before[1] += sum(connection.received_bytes for connection in gone)

    def _accept(self) -> None:
        while True:
            try:
                self._read_on(self._listener.accept())
            except GovernError:
                return  # it was closed

    def _read_on(self, connection: Connection) -> None:
        with self._lock:
            self._all.append(connection)
            idle = [c for c in self._all if c.peer == connection.peer and c is not self._open.get(c.peer)]
        if len(idle) > _IDLE:
            idle[0].close()
        threading.Thread(target=self._read, args=(connection,), name=f"from {connection.peer}", daemon=True).start()

    def _read(self, connection: Connection) -> None:
        while True:
            try:
                message = connection.receive(None)
                if "question" in message.header:
                    number_in(message, "question")  # it will be in the answer
                if message.kind in ("answer", "refusal"):
                    self._answered(connection, message)
                elif not self._at_once(connection, message):
                    self._inbox.put((connection, message))
            except GovernError as error:
                self._lose(connection, error)
                return
            except Exception as error:  # what others send must not silence this thread
                self._lose(connection, WireError(f"What '{connection.peer}' sent was too much: {error!r}."))
                return

    def _answered(self, connection: Connection, message: Message) -> None:
        with self._lock:
            answer = self._answers.pop((id(connection), number_in(message, "question")), None)
        if answer is None:
            self._on_refused(f"'{connection.peer}' answers what it was not asked, or a second time.")
        elif message.kind == "answer":
            answer.set_result(message)
        else:
            answer.set_exception(refused(message))

    def _lose(self, connection: Connection, error: GovernError) -> None:
        connection.close()
        with self._lock:
            if self._open.get(connection.peer) is connection:
                del self._open[connection.peer]
            known = connection in self._all
            if known:
                self._all.remove(connection)
                self._count([connection])
            mine = [key for key in self._answers if key[0] == id(connection)]
            lost = [self._answers.pop(key) for key in mine]
        for answer in lost:
            answer.set_exception(error)
        if known:  # not one that was dropped on purpose
            self._inbox.put((connection, error))


def number_in(message: Message, name: str) -> int:
    """A number that a message must have."""
    number = message.header.get(name)
    if type(number) is not int or not 0 <= number < 2**63:
        raise WireError(f"The message '{message.kind}' must say its '{name}', a number. It says {number!r:.40}.")
    return number


def answer(connection: Connection, question: Message, header: dict[str, Any]) -> None:
    """Answer a message that asks for it."""
    connection.send(Message("answer", {**header, "question": question.header.get("question")}))


def refuse(connection: Connection, question: Message, error: GovernError) -> None:
    """Say no to a message, and why."""
    connection.send(Message("refusal", {**refusal(error), "question": question.header.get("question")}))


def refusal(error: GovernError) -> dict[str, Any]:
    """An error as another party is told of it."""
    kind = next(name for name, type_ in _KINDS.items() if isinstance(error, type_))
    header: dict[str, Any] = {"kind": kind, "reason": str(error)}
    if isinstance(error, ConsentPending):
        header["seconds"] = error.seconds
    return header


_KINDS: dict[str, type[GovernError]] = {
    "pending": ConsentPending,
    "refused": ConsentRefused,
    "unavailable": PartyUnavailable,
    "broken": GovernError,
}


def refused(message: Message) -> GovernError:
    """The error that another party has told of."""
    reason, kind = str(message.header.get("reason", "no reason given")), message.header.get("kind")
    if kind == "pending":
        seconds = message.header.get("seconds")
        if not (isinstance(seconds, int | float) and 0 <= seconds <= 3600):  # nobody makes us wait for ever
            seconds = 1.0
        return ConsentPending(reason, float(seconds))
    return _KINDS.get(str(kind), GovernError)(reason)
