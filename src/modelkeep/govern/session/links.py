"""Links: a party's connections to the others, what came over them, and the answers that it waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any, TypeVar

from modelkeep.core.errors import GovernError, PartyUnavailable, WireError
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.identity import Identity
from modelkeep.govern.session.messages import read_number, read_refusal
from modelkeep.govern.wire.connection import Admits, Connection
from modelkeep.govern.wire.endpoint import Endpoint
from modelkeep.govern.wire.message import Message

T = TypeVar("T")
_Arrival = tuple[Connection, Message | GovernError]
_IDLE = 8  # connections from one party that are not in use; one more closes the oldest
_WAITING = 256  # messages that wait to be handled; TCP then makes the senders wait
_MOMENT = 0.001  # seconds; a message of which the half has come is there before, and its reader needs the processor
_LOOK_AGAIN = 0.01  # seconds until a thread whose message finds no room looks again


class Links:
    """At most one connection in use to each other party; every connection is read by its own thread.

    Args:
        agreement: Who the parties are, and where.
        identity: Who this one is.
        keys: The public key that speaks for each party now.
        on_refused: Called with a sentence for each refusal.
    """

    def __init__(
        self, agreement: Agreement, identity: Identity, keys: Mapping[str, str], on_refused: Callable[[str], None]
    ) -> None:
        self._agreement, self._identity, self._on_refused = agreement, identity, on_refused
        self._endpoint = Endpoint(identity, keys, wire=agreement.wire, on_refused=on_refused)
        self._inbox: SimpleQueue[_Arrival | None] = SimpleQueue()  # None only wakes who waits
        self._open: dict[str, Connection] = {}
        self._all: list[Connection] = []
        self._before = [0, 0]  # bytes sent and received over connections that are gone
        self._answers: dict[tuple[int, int], Future[Message]] = {}
        self._questions = count()
        self._lock = threading.Lock()
        self.on_idle: Callable[[], None] = lambda: None  # called by `receive` when nothing has come for a moment

    def listen(self, answer_at_once: Callable[[Connection, Message], bool], admits: Admits) -> None:
        """Listen at this party's address.

        A message for which `answer_at_once` returns True is done with on the thread that read it; all others wait for
        `receive`. Tensors that are announced come only if `admits` returns True for who sends them, the kind and the
        values of the message, and their bytes; otherwise the message is left away.
        """
        self._answer_at_once, self._admits = answer_at_once, admits
        self._listener = self._endpoint.listen(self._agreement.member(self._identity.name).address)
        self.address = self._listener.address
        threading.Thread(target=self._accept, name="accept", daemon=True).start()

    def receive(self, timeout: float, *, wakes: bool = False) -> _Arrival | None:
        """The next message, or the loss of a connection; None where nothing comes in time, or `wake` was called."""
        now = monotonic()
        moment, until = min(now + _MOMENT, now + timeout), now + timeout
        try:
            return self._next(moment, wakes)
        except Empty:
            self.on_idle()
        try:
            return self._next(until, wakes)
        except Empty:
            return None

    def wake(self) -> None:
        """Let a thread that waits in `receive` look up."""
        if self._inbox.qsize() < _WAITING:  # else it has enough to do
            self._inbox.put(None)

    def dial(self, name: str, timeout: float) -> Connection:
        """Open a new connection to a party, and use it from now on."""
        connection = self._endpoint.connect(name, self._agreement.member(name).address, timeout)
        self._read_on(connection)
        self.use(connection)
        return connection

    def use(self, connection: Connection) -> None:
        """Use this connection to its party from now on, unless it is lost already; an older one is closed."""
        with self._lock:
            if connection not in self._all:
                return
            old = self._open.get(connection.peer)
            self._open[connection.peer] = connection
        if old is not None and old is not connection:
            old.close()

    def connection_to(self, name: str) -> Connection | None:
        """The connection in use to a party, if there is one."""
        return self._open.get(name)

    def send(self, name: str, message: Message) -> None:
        """Send to a party that is connected."""
        self._require_connection(name).send(message)

    def ask(self, name: str, kind: str, header: dict[str, Any]) -> Future[Message]:
        """Send a message that is answered."""
        connection = self._require_connection(name)
        number = next(self._questions)
        answer: Future[Message] = Future()
        with self._lock:
            self._answers[id(connection), number] = answer
        connection.send(Message(kind, {**header, "question": number}))
        return answer

    def disconnect(self) -> None:
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
        """Stop listening, and close all connections."""
        self._listener.close()
        self.disconnect()

    @property
    def bytes(self) -> tuple[int, int]:
        """Bytes sent and received since the party started."""
        with self._lock:
            sent, received = self._before
            return sent + sum(c.sent_bytes for c in self._all), received + sum(c.received_bytes for c in self._all)

    def _next(self, until: float, wakes: bool) -> _Arrival | None:
        while True:
            arrival = self._inbox.get(timeout=max(0.0, until - monotonic()))
            if arrival is not None or wakes:
                return arrival

    def _require_connection(self, name: str) -> Connection:
        connection = self._open.get(name)
        if connection is None:
            raise PartyUnavailable(f"There is no connection to '{name}' any more.")
        return connection

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
        for oldest in idle[:-_IDLE]:  # perhaps not only one: a closed connection is removed by the thread that read it
            oldest.close()
        connection.admits = self._admits
        threading.Thread(target=self._read, args=(connection,), name=f"from {connection.peer}", daemon=True).start()

    def _read(self, connection: Connection) -> None:
        while True:
            try:
                message = connection.receive(None)
                if "question" in message.header:
                    read_number(message, "question")  # it will be in the answer
                if message.kind in ("answer", "refusal"):
                    self._take_answer(connection, message)
                elif not self._answer_at_once(connection, message):
                    self._hand_over(connection, message)
            except GovernError as error:
                self._lose(connection, error)
                return
            except Exception as error:  # what others send must not silence this thread
                self._lose(connection, WireError(f"What '{connection.peer}' sent was too much: {error!r}."))
                return

    def _take_answer(self, connection: Connection, message: Message) -> None:
        with self._lock:
            answer = self._answers.pop((id(connection), read_number(message, "question")), None)
        if answer is None:
            self._on_refused(f"'{connection.peer}' answers what it was not asked, or a second time.")
        elif message.kind == "answer":
            answer.set_result(message)
        else:
            answer.set_exception(read_refusal(message))

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
            self._hand_over(connection, error)

    def _hand_over(self, connection: Connection, what: Message | GovernError) -> None:
        """Let `receive` have it, when there is room. A queue with a limit of its own takes longer at each message."""
        while self._inbox.qsize() >= _WAITING:
            sleep(_LOOK_AGAIN)
        self._inbox.put((connection, what))


def wait_for(answer: Future[T], deadline: float, name: str) -> T:
    """What the party called `name` answers within `deadline` seconds."""
    try:
        return answer.result(deadline)
    except TimeoutError as error:
        raise PartyUnavailable(f"'{name}' did not answer in {deadline:g} seconds.") from error
