"""Serving: a party that takes part in the passes which others lead."""

from __future__ import annotations

import re
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from modelkeep.core.errors import GovernError, PartyUnavailable, WireError
from modelkeep.govern.ledger.entry import Entry
from modelkeep.govern.session.computation import Passage
from modelkeep.govern.session.links import answer, number_in, refusal, refuse
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.passes import Consent, read_consent, read_pass
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.message import Message

_SESSION = re.compile(r"[0-9a-f]{16}")
_LOOK_UP = 0.5  # seconds between two looks at whether to stop


def serve(party: Party, stop: threading.Event) -> None:
    """Take part until `stop` is set. What goes wrong ends the pass, never the serving."""

    def tell(passage: Passage, entry: Future[Entry]) -> None:
        leader, session = party.leader, party.session
        entry.add_done_callback(lambda done: _tell(party, leader, session, passage, done))

    party.on_prepared = tell
    party.notes.write("serving", f"'{party.name}' serves at {party.links.address}.")
    silent = 0.0
    while not stop.is_set():
        came = party.links.came(_LOOK_UP)
        silent = 0.0 if came is not None or party.passage is None or party.passage.done else silent + _LOOK_UP
        try:
            if silent > party.agreement.wire.deadline:
                raise PartyUnavailable(f"Nothing more came in {party.passage and party.passage.of} for {silent:g} s.")
            if came is not None:
                _handle(party, *came)
        except Exception as error:  # what others send, or a disk, may bring about anything; the serving goes on
            silent = 0.0
            _trouble(party, error)
    party.keep()


def _handle(party: Party, connection: Connection, message: Message | GovernError) -> None:
    if isinstance(message, GovernError):
        _lost(party, connection, message)
        return
    if message.kind in ("open", "settle", "rewind", "close"):
        with suppress(PartyUnavailable):  # who asks and is gone disturbs nobody
            try:
                told = _answer(party, connection, message)
            except GovernError as error:
                party.notes.refused(str(error))
                refuse(connection, message, error)
            else:
                answer(connection, message, told)
        return
    if message.kind == "link":
        if message.header.get("session") != party.session:
            party.notes.refused(f"'{connection.peer}' speaks of another session than this one. It is not listened to.")
        else:
            party.links.speak_by(connection)
    elif message.kind in ("activations", "gradients"):
        party.take(connection, message)
    elif connection.peer != party.leader or message.header.get("session") != party.session:
        party.notes.refused(f"'{connection.peer}' says '{message.kind}', but does not lead this session.")
    elif message.kind == "begin":
        party.begin(read_pass(message.header.get("pass", {})), _consents(message))
    elif message.kind == "commit":
        party.commit(number_in(message, "number"))
        party.keep_when_due()
    elif message.kind == "abort":
        party.give_up()
        party.notes.write("aborted", str(message.header.get("reason", "")))
    else:
        party.notes.refused(f"'{connection.peer}' says '{message.kind}', which nobody understands here.")


def _lost(party: Party, connection: Connection, error: GovernError) -> None:
    """A connection broke. It does not matter where the peer has come back by another one, or nothing was due."""
    if party.links.to(connection.peer) is not None:
        return
    if connection.peer == party.leader:
        party.session = party.leader = ""
        party.give_up()
        party.notes.write("interrupted", f"The session broke off. {error}")
    elif party.passage is not None and not party.passage.done:
        raise error


def _answer(party: Party, connection: Connection, message: Message) -> dict[str, object]:
    """What the leader of a session is told."""
    if message.kind == "open":
        return _open(party, connection, message)
    if connection.peer != party.leader or message.header.get("session") != party.session:
        raise WireError(f"'{connection.peer}' does not lead this session.")
    if message.kind == "settle":
        committed = min(number_in(message, "committed"), party.ledger.length)
        if committed:
            party.ledger.commit(committed - 1)
    elif message.kind == "rewind":
        party.stand_at(number_in(message, "step"))
    else:
        _require_end(party, number_in(message, "step"), number_in(message, "committed"))
        party.give_up()
        party.keep()
        party.ledger.sync()
        party.session = party.leader = ""
    return {"fingerprint": party.holding.fingerprint()} if message.kind == "close" else {}


def _require_end(party: Party, step: int, committed: int) -> None:
    """Refuse to end a session where the leader is; the last commit may have been lost."""
    if (party.standing, party.ledger.committed) != (step, committed):
        raise PartyUnavailable(
            f"'{party.name}' stands after {party.standing} updates and {party.ledger.committed} passes, and the leader "
            f"after {step} and {committed}. The session must be opened again before it can end."
        )


def _open(party: Party, connection: Connection, message: Message) -> dict[str, object]:
    agreement, leader = party.agreement, party.leader
    if message.header.get("agreement") != agreement.fingerprint:
        raise GovernError(
            f"'{connection.peer}' holds another agreement ({str(message.header.get('agreement'))[:12]}…) than "
            f"'{party.name}' does ({agreement.fingerprint[:12]}…). Nothing starts unless all hold the same one."
        )
    session = message.header.get("session")
    if not isinstance(session, str) or not _SESSION.fullmatch(session):
        raise GovernError(f"'{connection.peer}' opens a session without saying which.")
    if leader and leader != connection.peer and party.links.to(leader) is not None:
        raise PartyUnavailable(f"'{party.name}' is busy in a session that '{leader}' leads.")
    party.give_up()
    party.links.speak_by(connection)
    party.leader, party.session = connection.peer, session
    party.notes.write("opened", f"'{connection.peer}' leads a session.")
    return {
        "standing": party.standing,
        "checkpoints": party.checkpoints.steps(),
        "length": party.ledger.length,
        "committed": party.ledger.committed,
    }


def _tell(party: Party, leader: str, session: str, passage: Passage, done: Future[Entry]) -> None:
    """On the scribe's thread: the entry is prepared, or could not be. The leader then says what to do."""
    try:
        entry = done.result()
        header = {"session": session, "number": entry.number, "hash": entry.hash, "metrics": passage.metrics}
        party.links.send(leader, Message("prepared", header))
    except GovernError as error:
        with suppress(GovernError):  # it is gone too, and will open a session again
            party.links.send(leader, Message("trouble", {"session": session, **refusal(error)}))


def _trouble(party: Party, error: Exception) -> None:
    """Tell the leader, who tells the others; then wait for it to begin again."""
    if not isinstance(error, GovernError):
        error = GovernError(f"'{party.name}' could not go on: {error!r}.")
    party.give_up()
    party.notes.write("trouble", str(error))
    if party.leader:
        with suppress(GovernError):  # it is gone too, and will open a session again
            party.links.send(party.leader, Message("trouble", {"session": party.session, **refusal(error)}))


def _consents(message: Message) -> list[Consent]:
    """The consents that a message brings."""
    given: Any = message.header.get("consents")
    if not isinstance(given, list):
        raise WireError("A pass was begun without the parties' consents.")
    return [read_consent(values) for values in given]
