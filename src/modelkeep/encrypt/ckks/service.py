"""Service: sessions of clients and their requests, checked before anything is computed. It never sees a value.

A session is the evaluation keys of one client. There are at most `sessions` of them; the one that was quiet for the
longest goes when another comes, and its client sends its keys again.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from time import perf_counter

from modelkeep.core.errors import EncryptError
from modelkeep.encrypt.ckks.exchange import Exchange
from modelkeep.encrypt.ckks.messages import Message, pack, unpack
from modelkeep.encrypt.ckks.plan import Prepared
from modelkeep.encrypt.ckks.worker import Worker, WorkerDied, make_setup

SPARE = 1.25  # compressed sizes differ a little from those that were measured
HEADER = 64 * 1024
MOST_SESSIONS = 16
KEY_MEMORY = 4 << 30  # bytes of all sessions' keys together, unless the operator says how many sessions there may be
EXPANDED = 2  # a key in memory has no seed in place of its random half


class UnknownSession(EncryptError):
    """The session was never opened, was evicted, or went with its worker: keys must be sent again."""


class Replayed(EncryptError):
    """A request with a number that was used before."""


@dataclass
class _Session:
    key: bytes
    last: int = 0


class Service:
    """Answers messages of clients with messages. `log` gets a line for each, with all that was seen of it."""

    def __init__(
        self, prepared: Prepared, *, sessions: int | None = None, log: Callable[[str], None] = lambda _: None
    ) -> None:
        layout, self.plan = prepared.layout, prepared.plan
        self.worker = Worker(make_setup(layout.parameters, layout.maps, layout.first, layout.steps))
        fitting = int(KEY_MEMORY // (EXPANDED * self.plan.predicted.key_bytes))
        self._most = sessions or min(MOST_SESSIONS, max(1, fitting))
        self._log = log
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def most_key_bytes(self) -> int:
        """The largest body that opens a session."""
        return int(SPARE * self.plan.predicted.key_bytes) + HEADER

    @property
    def most_input_bytes(self) -> int:
        """The largest body of a request."""
        return int(SPARE * self.plan.predicted.input_bytes) + HEADER

    def open(self, content: bytes) -> bytes:
        """Take a client's evaluation keys, and answer with the name of its session."""
        asked = unpack(content)
        self._require_plan(asked)
        if len(asked.parts) != 2:
            raise EncryptError(
                f"A session is opened with two keys, relinearisation and Galois. Got {len(asked.parts)}."
            )
        name, exchange = secrets.token_hex(16), Exchange()
        key = exchange.agree(asked.header.get("exchange"), self.plan.fingerprint() + name)
        self._ask(name, "open", asked.parts)
        with self._lock:
            self._sessions[name] = _Session(key)
            evicted = [self._sessions.popitem(last=False)[0] for _ in range(len(self._sessions) - self._most)]
        for each in evicted:
            self._ask(each, "close", ())
            self._log(f"session {each[:8]} evicted, the quietest of {self._most}")
        self._log(f"session {name[:8]} opened: {_seen(asked)}")
        return pack({"session": name, "exchange": exchange.public, "plan": self.plan.fingerprint()}, key=key)

    def answer(self, name: str, content: bytes) -> bytes:
        """Compute on the ciphertexts of a request of an open session."""
        start = perf_counter()
        with self._lock:
            session = self._sessions.get(name)
            if session is None:
                raise UnknownSession("This session is not open (any more). Send the keys again.")
            asked = unpack(content, session.key)
            self._require_plan(asked)
            number = asked.header.get("number")
            if not isinstance(number, int) or number <= session.last:
                raise Replayed(f"Request {number!r} of this session was answered before. A request is answered once.")
            session.last = number
            self._sessions.move_to_end(name)
        answers = self._ask(name, "answer", asked.parts).parts
        self._log(f"session {name[:8]} request {number}: {_seen(asked)}; {1e3 * (perf_counter() - start):.0f} ms")
        return pack({"number": number, "plan": self.plan.fingerprint()}, answers, session.key)

    def close(self) -> None:
        """End the worker."""
        self.worker.close()

    def _ask(self, name: str, do: str, parts: tuple[bytes, ...]) -> Message:
        try:
            return self.worker.ask({"do": do, "session": name}, parts)
        except WorkerDied as error:
            with self._lock:  # the keys went with the worker
                self._sessions.clear()
            self._log(f"session {name[:8]}: {error}")
            raise

    def _require_plan(self, asked: Message) -> None:
        if asked.header.get("plan") != self.plan.fingerprint():
            raise EncryptError(
                "The request was made for another model, plan or parameters than this server has. Fetch the plan again."
            )


def _seen(asked: Message) -> str:
    """All that the server can say about what came: counts, bytes, a hash."""
    size, digest = sum(map(len, asked.parts)), sha256(b"".join(asked.parts)).hexdigest()[:16]
    return f"{len(asked.parts)} ciphertexts or keys, {size:,} bytes, sha256 {digest}"
