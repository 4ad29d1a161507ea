"""RemoteParty: another party as a leader speaks to it, over the wire. `member` is the other end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TypeVar

from modelkeep.core.errors import GovernError
from modelkeep.govern.passes import Consent, Pass, read_consent
from modelkeep.govern.session.links import Links
from modelkeep.govern.session.messages import describe_error, read_number
from modelkeep.govern.session.session_protocol import Standing
from modelkeep.govern.wire.message import Message

T = TypeVar("T")


class RemoteParty:
    """The party called `name`, as a seat in sessions and passes."""

    def __init__(self, links: Links, name: str) -> None:
        self.name = name
        self._links, self._session = links, ""

    def open(self, session: str, leader: str, agreement: str) -> Future[Standing]:
        """See `SessionSeat`. The connection proves who the leader is."""
        self._session = session
        return self._ask("open", {"agreement": agreement}, lambda answer: _read_standing(answer, self.name))

    def settle(self, committed: int) -> Future[None]:
        """See `SessionSeat`."""
        return self._ask("settle", {"committed": committed}, lambda answer: None)

    def rewind(self, step: int) -> Future[None]:
        """See `SessionSeat`."""
        return self._ask("rewind", {"step": step}, lambda answer: None)

    def close(self, step: int, committed: int) -> Future[str]:
        """See `SessionSeat`."""
        asked = {"step": step, "committed": committed}
        return self._ask("close", asked, lambda answer: str(answer.header.get("fingerprint")))

    def ask(self, of: Pass) -> Future[Consent]:
        """See `PassSeat`."""
        return self._ask("ask", {"pass": asdict(of)}, lambda answer: read_consent(answer.header.get("consent", {})))

    def begin(self, of: Pass, consents: Sequence[Consent]) -> None:
        """See `PassSeat`."""
        self._tell("begin", {"pass": asdict(of), "consents": [asdict(each) for each in consents]})

    def commit(self, number: int) -> None:
        """See `PassSeat`."""
        self._tell("commit", {"number": number})

    def abort(self, error: GovernError) -> None:
        """Tell the party that the pass broke off, if it can be reached."""
        with suppress(GovernError):
            self._tell("abort", describe_error(error))

    def _tell(self, kind: str, header: dict[str, Any]) -> None:
        self._links.send(self.name, Message(kind, {"session": self._session, **header}))

    def _ask(self, kind: str, header: dict[str, Any], read: Callable[[Message], T]) -> Future[T]:
        found: Future[T] = Future()

        def take(answer: Future[Message]) -> None:
            try:
                found.set_result(read(answer.result()))
            except GovernError as error:
                found.set_exception(error)

        self._links.ask(self.name, kind, {**header, "session": self._session}).add_done_callback(take)
        return found


def _read_standing(answer: Message, name: str) -> Standing:
    standing, checkpoints = answer.header.get("standing"), answer.header.get("checkpoints")
    if not isinstance(checkpoints, list) or any(type(step) is not int for step in [*checkpoints, standing or 0]):
        raise GovernError(f"'{name}' does not say where it stands.")
    return Standing(standing, checkpoints, read_number(answer, "length"), read_number(answer, "committed"))
