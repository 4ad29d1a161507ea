"""Serving: a party that takes part in the passes which others lead."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from modelkeep.errors import GovernError, PartyUnavailable, WireError
from modelkeep.govern.ledger.entry import Entry
from modelkeep.govern.links import answer, refusal, refuse
from modelkeep.govern.party import Party, consents_of, pass_of
from modelkeep.govern.passage import Passage
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.message import Message

_LOOK_UP = 0.5  # seconds between two looks at whether to stop


def serve(party: Party, stop: threading.Event) -> None:
    """Take part until `stop` is set. What goes wrong ends the pass, never the serving."""
    party.on_prepared = lambda passage, entry: entry.add_done_callback(lambda done: _tell(party, passage, done))
    party.ledger.event("serving", f"'{party.name}' serves at {party.links.address}.")
    silent = 0.0
    while not stop.is_set():
        came = party.links.came(_LOOK_UP)
        silent = 0.0 if came is not None or party.passage is None or party.passage.done else silent + _LOOK_UP
        try:
            if silent > party.agreement.wire.deadline:
                raise PartyUnavailable(f"Nothing more came in {party.passage and party.passage.of} for {silent:g} s.")
            if came is not None:
                _handle(party, *came)
        except GovernError as error:
            silent = 0.0
            _trouble(party, error)
    party.keep()


def _handle(party: Party, connection: Connection, message: Message | GovernError) -> None:
    if isinstance(message, GovernError):
        if party.session and connection.peer == party.leader:
            party.session = party.leader = ""
            party.give_up()
            party.ledger.event("interrupted", f"The session broke off. {message}")
        return
    if message.kind in ("open", "settle", "rewind", "close"):
        try:
            answer(connection, message, _answer(party, connection, message))
        except PartyUnavailable:
            raise
        except GovernError as error:
            party.note_refused(str(error))
            refuse(connection, message, error)
        return
    if message.kind == "link":
        if message.header.get("session") != party.session:
            raise WireError(f"'{connection.peer}' speaks of another session than this one. It is not listened to.")
        party.links.speak_by(connection)
    elif message.kind in ("activations", "gradients"):
        party.take(connection, message)
    elif connection.peer != party.leader or message.header.get("session") != party.session:
        party.note_refused(f"'{connection.peer}' says '{message.kind}', but does not lead this session.")
    elif message.kind == "begin":
        party.begin(pass_of(message), consents_of(message))
    elif message.kind == "commit":
        party.commit(int(message.header["number"]))
    elif message.kind == "abort":
        party.ledger.event("aborted", str(message.header.get("reason", "")))
        party.give_up()
    else:
        party.note_refused(f"'{connection.peer}' says '{message.kind}', which nobody understands here.")


def _answer(party: Party, connection: Connection, message: Message) -> dict[str, object]:
    """What the leader of a session is told."""
    if message.kind == "open":
        return _open(party, connection, message)
    if connection.peer != party.leader or message.header.get("session") != party.session:
        raise GovernError(f"'{connection.peer}' does not lead this session.")
    if message.kind == "settle":
        committed = int(message.header["committed"])
        if committed:
            party.ledger.commit(min(committed, party.ledger.length) - 1)
    elif message.kind == "rewind":
        party.stand_at(int(message.header["step"]))
    else:
        party.give_up()
        party.keep()
        party.ledger.sync()
        party.session = party.leader = ""
    return {"fingerprint": party.holding.fingerprint()} if message.kind == "close" else {}


def _open(party: Party, connection: Connection, message: Message) -> dict[str, object]:
    agreement, leader = party.agreement, party.leader
    if message.header.get("agreement") != agreement.fingerprint:
        raise GovernError(
            f"'{connection.peer}' holds another agreement ({str(message.header.get('agreement'))[:12]}…) than "
            f"'{party.name}' does ({agreement.fingerprint[:12]}…). Nothing starts unless all hold the same one."
        )
    if leader and leader != connection.peer and party.links.to(leader) is not None:
        raise PartyUnavailable(f"'{party.name}' is busy in a session that '{leader}' leads.")
    party.give_up()
    party.links.speak_by(connection)
    party.leader, party.session = connection.peer, str(message.header.get("session"))
    party.ledger.event("opened", f"'{connection.peer}' leads a session.")
    return {
        "standing": party.standing,
        "checkpoints": party.checkpoints.steps(),
        "length": party.ledger.length,
        "committed": party.ledger.committed,
    }


def _tell(party: Party, passage: Passage, done: Future[Entry]) -> None:
    """On the scribe's thread: the entry is prepared, or could not be."""
    try:
        entry = done.result()
        header = {"number": entry.number, "hash": entry.hash, "metrics": passage.metrics}
        party.links.send(party.leader, Message("prepared", header))
    except GovernError as error:
        _trouble(party, error)


def _trouble(party: Party, error: GovernError) -> None:
    """Tell the leader, who tells the others; then wait for it to begin again."""
    party.status.news = str(error)
    party.ledger.event("trouble", str(error))
    party.give_up()
    if party.leader:
        try:
            party.links.send(party.leader, Message("trouble", refusal(error)))
        except GovernError:
            party.session = party.leader = ""  # it is gone too, and will open a session again
