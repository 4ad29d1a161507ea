"""Members of a session: `RemoteParty` is one as its leader speaks to it; the functions are what that party does.

The first writes the messages that the others read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from modelkeep.core.errors import GovernError, PartyUnavailable, WireError
from modelkeep.govern.ledger.receipt import Receipt, read_receipts
from modelkeep.govern.passes import Consent, Pass, read, read_consent, read_pass, values_of
from modelkeep.govern.session.exchange import describe
from modelkeep.govern.session.links import Links
from modelkeep.govern.session.messages import (
    answer_question,
    describe_error,
    read_consents,
    read_number,
    read_receipt,
    refuse_question,
)
from modelkeep.govern.session.pass_participant import PassParticipant
from modelkeep.govern.session.session_protocol import Standing, read_standing
from modelkeep.govern.session.turn import Turn
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.message import Message

if TYPE_CHECKING:
    from modelkeep.govern.session.party import Party

T = TypeVar("T")
_SESSION = re.compile(r"[0-9a-f]{16}")
_LONGEST_REASON = 500  # characters of another party's reason that are written down


class RemoteParty:
    """The party called `name`, as a seat in sessions and passes."""

    def __init__(self, links: Links, name: str) -> None:
        self.name = name
        self._links, self._session = links, ""

    def open(self, session: str, leader: str, agreement: str) -> Future[Standing]:
        """See `SessionSeat`. The connection proves who the leader is."""
        self._session = session
        return self._ask("open", {"agreement": agreement}, lambda answer: _read_standing(answer.header, self.name))

    def settle(self, standings: Sequence[Standing]) -> Future[None]:
        """See `SessionSeat`."""
        told = [{"receipt": each.receipt.values(), "proof": _write_receipts(each.proof)} for each in standings]
        return self._ask("settle", {"standings": told}, lambda answer: None)

    def close(self, step: int, committed: int) -> Future[str]:
        """See `SessionSeat`."""
        asked = {"step": step, "committed": committed}
        return self._ask("close", asked, lambda answer: str(answer.header.get("fingerprint")))

    def ask(self, of: Pass) -> Future[Consent]:
        """See `PassSeat`."""
        return self._ask("ask", {"pass": values_of(of)}, lambda answer: read_consent(answer.header.get("consent", {})))

    def begin(self, of: Pass, consents: Sequence[Consent]) -> Future[Receipt]:
        """See `PassSeat`."""
        told = {"pass": values_of(of), "consents": [consent.values() for consent in consents]}
        return self._ask("begin", told, lambda answer: read_receipt(answer, self.name))

    def clear(self, receipts: Sequence[Receipt]) -> None:
        """See `PassSeat`."""
        self._tell("clear", {"receipts": _write_receipts(receipts)})

    def commit(self, number: int, receipts: Sequence[Receipt]) -> None:
        """See `PassSeat`."""
        self._tell("commit", {"number": number, "receipts": _write_receipts(receipts)})

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


def _write_receipts(receipts: Sequence[Receipt]) -> list[dict[str, Any]]:
    return [receipt.values() for receipt in receipts]


def _read_standing(values: Any, name: str | None = None) -> Standing:
    if not isinstance(values, dict):
        raise WireError("The standings of all parties were due, and something else came.")
    receipt = read(Receipt, values.get("receipt"))
    if name is not None and receipt.party != name:
        raise WireError(f"'{name}' sends a statement of '{receipt.party}' as its own.")
    return read_standing(receipt, read_receipts(values.get("proof")))


def answer_at_once(passes: PassParticipant, turn: Turn, connection: Connection, message: Message) -> bool:
    """Answer what need not wait for the pass under way, and turn others away who want to lead meanwhile.

    The leader asks for the next pass while this one is computed. It needs no answer before this one ends, and the
    answer would only take the processor from it: so it waits its turn, unless a decision may take a while.
    """
    if message.kind == "open" and (busy := turn.refuse(connection.peer)) is not None:
        refuse_question(connection, message, busy)
        return True
    if message.kind == "propose":  # a party that still exchanges signatures: here all are
        answer_question(connection, message, {"agreement": describe(passes.agreement)})
        return True
    if message.kind != "ask":
        return False
    computes = passes.unfinished is not None and passes.leader == connection.peer
    if computes and not passes.decision.takes_long:
        return False
    answer_ask(passes, connection, message)
    return True


def answer_ask(passes: PassParticipant, connection: Connection, message: Message) -> None:
    """Consent to the pass that the leader asks for, or refuse it with the reason."""
    try:
        of = read_pass(message.header.get("pass", {}))
        if connection.peer != of.asker or connection.peer != passes.leader:
            raise WireError(
                f"'{connection.peer}' asks for {of}, but the session is led by '{passes.leader or 'no party'}'."
            )
        if message.header.get("session") != passes.session:
            raise WireError(f"'{connection.peer}' asks for {of} in another session than this one.")
        answer_question(connection, message, {"consent": passes.consent(of).values()})
    except GovernError as error:
        refuse_question(connection, message, error)


def handle_message(party: Party, connection: Connection, message: Message) -> None:
    """Do what a message of another party asks for, if it may."""
    passes, peer = party.passes, connection.peer
    in_session = message.header.get("session") == passes.session
    if message.kind in ("open", "settle", "begin", "close"):
        with suppress(PartyUnavailable):  # a party that asks and is gone disturbs no other
            try:
                answer = _answer(party, connection, message, leads=in_session and peer == passes.leader)
            except GovernError as error:
                party.events.note_refusal(str(error))
                refuse_question(connection, message, error)
            else:
                answer_question(connection, message, answer)
    elif message.kind == "ask":
        with suppress(PartyUnavailable):
            answer_ask(party.passes, connection, message)
    elif message.kind == "link":
        if in_session:
            party.links.use(connection)
        else:
            party.events.note_refusal(f"'{peer}' speaks of another session than this one. It is ignored.")
    elif message.kind in ("activations", "gradients"):
        passes.carry(peer, message)
    elif peer != passes.leader or not in_session:
        party.events.note_refusal(f"'{peer}' says '{message.kind}', but does not lead this session.")
    elif message.kind == "clear":
        passes.clear(read_receipts(message.header.get("receipts")))
    elif message.kind == "commit":
        passes.commit(read_number(message, "number"), read_receipts(message.header.get("receipts")))
        party.state.keep_when_due()
    elif message.kind == "abort":
        passes.give_up(f"'{peer}' says: {str(message.header.get('reason', ''))[:_LONGEST_REASON]}")
    else:
        party.events.note_refusal(f"'{peer}' says '{message.kind}', which is not a message of a session.")


def _answer(party: Party, connection: Connection, message: Message, *, leads: bool) -> dict[str, object]:
    """What the leader of a session asks for."""
    sessions, peer = party.sessions, connection.peer
    if message.kind == "open":
        session = message.header.get("session")
        if not isinstance(session, str) or not _SESSION.fullmatch(session):
            raise GovernError(f"'{peer}' opens a session without saying which.")
        standing = sessions.open(session, peer, str(message.header.get("agreement"))).result()
        party.links.use(connection)
        return {"receipt": standing.receipt.values(), "proof": _write_receipts(standing.proof)}
    if not leads:
        raise WireError(f"'{peer}' does not lead this session.")
    if message.kind == "begin":
        of = read_pass(message.header.get("pass", {}))
        return {"receipt": party.passes.begin(of, read_consents(message)).result().values()}
    if message.kind == "settle":
        standings = message.header.get("standings")
        if not isinstance(standings, list):
            raise WireError("The standings of all parties were due, and something else came.")
        sessions.settle([_read_standing(each) for each in standings]).result()
        return {}
    return {"fingerprint": sessions.close(read_number(message, "step"), read_number(message, "committed")).result()}


def handle_loss(party: Party, connection: Connection, error: GovernError) -> None:
    """A connection broke. It matters only if there is no newer one to that party, and if something was due."""
    if party.links.connection_to(connection.peer) is not None:
        return
    if connection.peer == party.passes.leader:
        party.sessions.leave()
        party.events.write("interrupted", f"The session broke off. {error}")
    elif party.passes.unfinished is not None:
        raise error


def report_prepared(passes: PassParticipant, of: Pass, prepared: Future[Receipt]) -> None:
    """Tell the leader when the entry is prepared, or could not be; the leader decides what follows."""
    leader, session = passes.leader, passes.session
    if leader == passes.name:
        return  # it knows

    def send(done: Future[Receipt]) -> None:  # on the ledger writer's thread
        try:
            header = {"session": session, "number": of.number, "receipt": done.result().values()}
            passes.links.send(leader, Message("prepared", header))
        except GovernError as error:
            _send_trouble(passes, leader, session, error)

    prepared.add_done_callback(send)


def report_trouble(party: Party, error: Exception) -> None:
    """Tell the leader, who tells the others; then wait for it to begin again."""
    if not isinstance(error, GovernError):
        error = GovernError(f"'{party.name}' could not go on: {error!r}.")
    party.passes.give_up(str(error))
    party.events.write("trouble", str(error))
    if party.passes.leader:
        _send_trouble(party.passes, party.passes.leader, party.passes.session, error)


def _send_trouble(passes: PassParticipant, leader: str, session: str, error: GovernError) -> None:
    with suppress(GovernError):  # the leader is gone too, and will open a session again
        passes.links.send(leader, Message("trouble", {"session": session, **describe_error(error)}))
