"""Leading: the party that asks for passes, drives them through all the others, and begins again after faults."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from secrets import token_hex
from typing import Any, TypeVar

from modelkeep.core.errors import ConsentPending, ConsentRefused, GovernError, PartyUnavailable, WireError
from modelkeep.govern.session.links import number_in, refusal, refuse, refused
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.passes import Consent, Pass, Purpose, read_consent
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.message import Message

T = TypeVar("T")


class Leader:
    """Leads sessions for one party.

    Args:
        party: The party that leads.
        patience: For how many seconds to try again to reach a party that is gone, and to wait for a human.
        tell: Told in a sentence what is waited for.
    """

    def __init__(
        self, party: Party, *, patience: float = 600.0, tell: Callable[[str], None] = lambda text: None
    ) -> None:
        self.party, self.patience, self._tell = party, patience, tell
        self.others = [member.name for member in party.agreement.parties if member.name != party.name]
        self.recoveries = 0
        self._open = False
        self._trouble_since: float | None = None
        self._wait = 0.1
        self._reached = 0
        self._recorded: dict[int, Pass] = {}
        self._asked: dict[str, tuple[Future[Consent], list[tuple[str, Future[Message]]]]] = {}

    def run(self, purpose: Purpose, make: Callable[[int, int], Pass]) -> dict[str, float]:
        """One pass with all parties' consent; after a fault it runs again. `make(number, step)` says which one."""
        return self._going(lambda: self._pass(purpose, make))

    def _going(self, work: Callable[[], T]) -> T:
        """Do the work in an open session; after a fault, open it again and do the work again."""
        while True:
            try:
                if not self._open:
                    self._begin_session()
                found = work()
                if self.party.ledger.committed > self._reached:  # what runs again is no progress yet
                    self._trouble_since = None
                return found
            except ConsentRefused as error:
                self._end_pass(error)
                raise
            except PartyUnavailable as error:
                if time.monotonic() - self._break_off(error) > self.patience:
                    self._trouble_since = None
                    raise PartyUnavailable(f"Tried again for {self.patience:g} seconds. {error}") from error
                self._tell(str(error))
                time.sleep(self._wait)
                self._wait = min(2 * self._wait, 1.0)
            except GovernError as error:
                self._end_pass(error)
                self._open = False
                raise

    def _break_off(self, error: PartyUnavailable) -> float:
        """After a fault: the session is opened anew. Since when nothing new was committed."""
        self._end_pass(error)
        self._open = False
        if self._trouble_since is None:
            self._trouble_since, self._wait = time.monotonic(), 0.1
            self._reached = self.party.ledger.committed
            self.recoveries += 1
            self.party.notes.write("recovering", str(error))
        return self._trouble_since

    def meet(self) -> None:
        """Open a session, if none is open."""
        self._going(lambda: None)

    def close(self) -> dict[str, str]:
        """End the session: all keep where they stand. The fingerprint of each party's part."""
        return self._going(self._close)

    def _close(self) -> dict[str, str]:
        party = self.party
        party.keep()
        party.ledger.sync()
        told = self._ask_all("close", {"step": party.holding.step, "committed": party.ledger.committed})
        self._open = False
        self._trouble_since = None
        party.session = party.leader = ""
        found = {name: str(message.header.get("fingerprint")) for name, message in told.items()}
        return {party.name: party.holding.fingerprint(), **found}

    # ---- a session

    def _begin_session(self) -> None:
        """Reach everybody, agree on what is committed, and stand at the same update."""
        party, deadline = self.party, self.party.agreement.wire.deadline
        party.give_up()
        party.links.drop()
        self._asked.clear()
        party.session, party.leader = token_hex(8), party.name
        for name in self.others:
            party.links.dial(name, deadline)
        stands = self._ask_all("open", {"agreement": party.agreement.fingerprint})
        own = {"standing": party.standing, "checkpoints": party.checkpoints.steps()}
        told = {name: _stand(message, name) for name, message in stands.items()}
        committed = max(party.ledger.committed, *(number_in(each, "committed") for each in stands.values()))
        if committed > party.ledger.length:
            raise GovernError(
                f"The ledger of '{party.name}' has {party.ledger.length} passes, but {committed} are committed. Was it "
                "restored from a backup? `modelkeep govern audit` says what is missing."
            )
        if committed:
            party.ledger.commit(committed - 1)
        self._ask_all("settle", {"committed": committed})
        step = _common_step({party.name: own, **told})
        party.stand_at(step)
        self._ask_all("rewind", {"step": step})
        self._recorded = {
            entry.of.step: entry.of
            for entry in party.ledger.entries(step)  # an update's number is never below its step
            if entry.of.purpose == "train" and entry.of.step >= step and entry.number < committed
        }
        shortest = min(number_in(each, "length") for each in stands.values())
        replayed = min((of.number for of in self._recorded.values()), default=committed)
        if shortest < min(committed, replayed):
            raise GovernError(
                f"A party's ledger has only {shortest} of {committed} passes. Run: modelkeep govern audit."
            )
        self._open = True

    def _ask_all(self, kind: str, header: dict[str, Any]) -> dict[str, Message]:
        links, deadline = self.party.links, self.party.agreement.wire.deadline
        header = {**header, "session": self.party.session}
        asked = {name: links.ask(name, kind, header) for name in self.others}
        return {name: _within(future, deadline, name) for name, future in asked.items()}

    # ---- a pass

    def _pass(self, purpose: Purpose, make: Callable[[int, int], Pass]) -> dict[str, float]:
        party = self.party
        of = self._next(purpose, make, party.ledger.committed, party.holding.step)
        consents = self._consents(of)
        for name in self.others:
            header = {"session": party.session, "pass": asdict(of), "consents": [asdict(each) for each in consents]}
            party.links.send(name, Message("begin", header))
        party.begin(of, consents)
        passage = party.passage
        assert passage is not None
        if purpose == "train" and of.step + 1 < party.holding.total:
            self._ask_ahead(self._next(purpose, make, max(party.ledger.committed, of.number + 1), of.step + 1))
        missing = set(self.others)
        metrics: dict[str, float] = {}
        while missing or not passage.done:
            self._take_one(of, missing, metrics)
        assert party.prepared is not None
        party.prepared.result()
        party.commit(of.number)  # from here on it counts: it is never made again, whatever happens to the others
        try:
            for name in self.others:
                party.links.send(name, Message("commit", {"session": party.session, "number": of.number}))
            party.keep_when_due()
        except PartyUnavailable as error:
            self._break_off(error)
        return {**metrics, **passage.metrics}

    def _next(self, purpose: Purpose, make: Callable[[int, int], Pass], number: int, step: int) -> Pass:
        """The pass for these weights: the one in the ledger, where it was made before a fault."""
        return self._recorded.get(step) or make(number, step) if purpose == "train" else make(number, step)

    def _take_one(self, of: Pass, missing: set[str], metrics: dict[str, float]) -> None:
        """Work on the next message."""
        party = self.party
        came = party.links.came(party.agreement.wire.deadline)
        if came is None:
            raise PartyUnavailable(f"Nothing came in {of} for {party.agreement.wire.deadline:g} seconds.")
        connection, message = came
        if isinstance(message, GovernError):
            if party.links.to(connection.peer) is None:  # not one that was closed for a better one, or a stray one
                raise PartyUnavailable(str(message))
        elif message.header.get("session") != party.session:
            self._turn_away(connection, message, "of another session than this one")
        elif message.kind == "prepared" and message.header.get("number") == of.number:
            missing.discard(connection.peer)
            if connection.peer == of.sink:
                metrics.update(_metrics(message, of))
        elif message.kind == "trouble":
            raise refused(message)
        elif message.kind in ("activations", "gradients"):
            party.take(connection, message)
        elif message.kind == "link":
            party.links.speak_by(connection)
        else:
            self._turn_away(connection, message, f"in {of}, which is not its turn")

    def _turn_away(self, connection: Connection, message: Message, why: str) -> None:
        """Do not look at a message; whoever waits for an answer to it is told so."""
        self.party.notes.refused(f"'{connection.peer}' says '{message.kind}' {why}.")
        if "question" in message.header:
            with suppress(PartyUnavailable):
                refuse(connection, message, PartyUnavailable(f"'{self.party.name}' leads a session itself."))

    def _consents(self, of: Pass) -> list[Consent]:
        """Everybody's consent, waited for where somebody has not decided yet."""
        until = time.monotonic() + self.patience
        while True:
            if of.digest not in self._asked:
                self._ask_ahead(of)
            own, others = self._asked.pop(of.digest)
            try:
                given = [own.result()]
                for name, future in others:
                    message = _within(future, self.party.agreement.wire.deadline, name)
                    given.append(read_consent(message.header.get("consent", {})))
                return sorted(given, key=lambda consent: consent.party)
            except ConsentPending as error:
                if time.monotonic() > until:
                    raise
                self._tell(str(error))
                time.sleep(min(error.seconds, 5.0))

    def _ask_ahead(self, of: Pass) -> None:
        """Ask for consent to a pass, also this party's own, while the one before it is under way."""
        header = {"session": self.party.session, "pass": asdict(of)}
        others = [(name, self.party.links.ask(name, "ask", header)) for name in self.others]
        own: Future[Consent] = Future()
        try:
            own.set_result(self.party.consent(of))
        except ConsentRefused as error:
            own.set_exception(error)
        self._asked[of.digest] = own, others

    def _end_pass(self, error: GovernError) -> None:
        """Stop the pass everywhere, with the reason."""
        party = self.party
        party.give_up()
        self._asked.clear()
        for name in self.others:
            with suppress(GovernError):
                party.links.send(name, Message("abort", {"session": party.session, **refusal(error)}))
        if party.standing is None:
            self._open = False  # a pass was under way: all must go back to where they stood


def _common_step(told: dict[str, dict[str, Any]]) -> int:
    """The newest state that all parties have."""
    try:
        have = [{*each["checkpoints"], each["standing"]} - {None} for each in told.values()]
    except (KeyError, TypeError) as error:
        raise WireError(f"A party does not say where it stands: {error!r}.") from error
    common = set.intersection(*have)
    if not common:
        kept = ", ".join(f"{name}: {sorted(each['checkpoints'])}" for name, each in told.items())
        raise GovernError(f"There is no checkpoint that all parties have ({kept}). Were some deleted?")
    return int(max(common))


def _metrics(message: Message, of: Pass) -> dict[str, float]:
    """What the party with the labels tells of the answers."""
    told: Any = message.header.get("metrics")
    wanted = {"train": {"loss"}, "evaluate": {"loss", "correct"}, "infer": set()}[of.purpose]
    known = isinstance(told, dict) and wanted <= told.keys()
    if not known or not all(type(value) in (int, float) and abs(value) < float("inf") for value in told.values()):
        raise GovernError(f"'{of.sink}' does not tell the {' and '.join(sorted(wanted)) or 'end'} of {of} in numbers.")
    return {name: float(value) for name, value in told.items()}


def _stand(message: Message, name: str) -> dict[str, Any]:
    """Where a party says that it stands."""
    standing, checkpoints = message.header.get("standing"), message.header.get("checkpoints")
    if not isinstance(checkpoints, list) or any(type(step) is not int for step in [*checkpoints, standing or 0]):
        raise GovernError(f"'{name}' does not say where it stands.")
    return {"standing": standing, "checkpoints": checkpoints}


def _within(answer: Future[Message], deadline: float, name: str) -> Message:
    try:
        return answer.result(deadline)
    except TimeoutError as error:
        raise PartyUnavailable(f"'{name}' did not answer in {deadline:g} seconds.") from error
