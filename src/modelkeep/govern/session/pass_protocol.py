"""One pass from top to bottom: ask, consent, begin, clear, carry, prepare, commit.

    the leader                           every party, the leader's own as well
    1 ask     ── the pass ─────────▶
              ◀───────── consent ──      2 consent   its rules, its policies and its approvers allow the pass; it signs
    3 begin   ── all consents ─────▶     3 begin     it checks them and its own rules again, and writes its intent down
              ◀────────── intent ──                  the source computes beside that, and sends nothing yet
    4 clear   ── all intents ──────▶     4 clear     it checks and keeps them; only now may anything cross
                                         5 carry     activations go forward and gradients back, from party to party
              ◀──────── prepared ──      6 prepare   it writes its ledger entry and takes the optimizer's step
    7 commit  ── all prepared ─────▶     7 commit    it checks and keeps them; the pass counts

Intents and what was prepared are events of each party's account, signed, and there before they are sent
(`pass_record`). `PassLeader` is the left side; the right one is in `pass_participant`. What goes wrong ends the pass:
`give_up`. docs/protocol.md has the states, and what holds of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Protocol

from modelkeep.core.errors import ConsentPending, ConsentRefused, GovernError, PartyUnavailable
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.passes import Consent, Pass, Purpose
from modelkeep.govern.session.links import wait_for
from modelkeep.govern.session.messages import read_metrics, read_receipt, read_refusal, refuse_question
from modelkeep.govern.session.pass_participant import PassParticipant
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.message import Message

MakePass = Callable[[int, int], Pass]


class PassSeat(Protocol):
    """A party as the leader of a pass speaks to it: to its own one directly, to the others over the wire."""

    @property
    def name(self) -> str: ...
    def ask(self, of: Pass) -> Future[Consent]: ...
    def begin(self, of: Pass, consents: Sequence[Consent]) -> Future[Receipt]: ...
    def clear(self, receipts: Sequence[Receipt]) -> None: ...
    def commit(self, number: int, receipts: Sequence[Receipt]) -> None: ...


class PassLeader:
    """Leads passes, one after the other, within a session.

    `recorded` are passes of the training that run again after a fault, by their step. `on_fault` hears of a fault
    after the pass was committed. `patience` is how many seconds to wait for a party that has not decided yet; `wait`
    waits some of them.
    """

    def __init__(
        self,
        own: PassParticipant,
        others: Sequence[PassSeat],
        patience: float,
        tell: Callable[[str], None],
        on_fault: Callable[[PartyUnavailable], object],
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._own, self._others = own, others
        self._patience, self._tell, self._on_fault, self._wait = patience, tell, on_fault, wait
        self._deadline = own.agreement.wire.deadline
        self._asked: dict[str, list[tuple[str, Future[Consent]]]] = {}
        self.recorded: dict[int, Pass] = {}

    def run(self, purpose: Purpose, make: MakePass) -> dict[str, float]:
        """Lead the next pass, which `make(number, step)` describes. Returns what it measured."""
        own = self._own
        of = self._choose(purpose, make, own.ledger.committed, own.state.pieces.step)
        self._begin(of, self._collect_consents(of))
        if purpose == "train" and of.step + 1 < own.state.pieces.total:  # ask while this pass is under way
            self._ask(self._choose(purpose, make, max(own.ledger.committed, of.number + 1), of.step + 1))
        prepared = self._carry(of)
        metrics = read_metrics(next(each for each in prepared if each.party == of.sink), of)
        own.commit(of.number, prepared)  # from here on the pass counts, whatever happens to the others
        try:
            for seat in self._others:
                seat.commit(of.number, prepared)
            own.state.keep_when_due()
        except PartyUnavailable as error:
            self._on_fault(error)
        return metrics

    def give_up(self, why: str = "It broke off.") -> None:
        """Forget the pass under way, and what was asked for."""
        self._own.give_up(why)
        self._asked.clear()

    def _choose(self, purpose: Purpose, make: MakePass, number: int, step: int) -> Pass:
        """The pass for these weights: the one in the ledger, where it was made before a fault."""
        return (self.recorded.get(step) if purpose == "train" else None) or make(number, step)

    def _ask(self, of: Pass) -> None:
        """Step 1."""
        others = [(seat.name, seat.ask(of)) for seat in self._others]  # they decide while the own party does
        for _, answer in others:
            answer.add_done_callback(partial(self._own.record.check_early, of))  # mostly while a pass is under way
        self._asked[of.digest] = [(self._own.name, self._own.ask(of)), *others]

    def _collect_consents(self, of: Pass) -> list[Consent]:
        """Step 2: every party's consent. Where a party has not decided yet, ask again until patience ends."""
        until = time.monotonic() + self._patience
        while True:
            if of.digest not in self._asked:
                self._ask(of)
            try:
                consents = [self._hear(name, answer, of) for name, answer in self._asked.pop(of.digest)]
                return sorted(consents, key=lambda consent: consent.party)
            except ConsentPending as error:
                if time.monotonic() > until:
                    self._own.events.note_refusal(f"Given up after {self._patience:g} seconds. {error}", of)
                    raise
                self._tell(str(error))
                self._wait(min(error.seconds, 5.0))

    def _hear(self, name: str, answer: Future[Consent], of: Pass) -> Consent:
        """The consent of a party. What another one refuses is in this party's account too."""
        try:
            return wait_for(answer, self._deadline, name)
        except ConsentPending:
            raise
        except ConsentRefused as error:
            if name != self._own.name:
                self._own.events.note_refusal(f"'{name}' refuses: {error}", of)
            raise

    def _begin(self, of: Pass, consents: Sequence[Consent]) -> None:
        """Steps 3 and 4: every party's intent, and all of them to every party."""
        seats = (*self._others, self._own)  # the own one last: it computes at once
        begun = [(seat.name, seat.begin(of, consents)) for seat in seats]
        intents = [wait_for(answer, self._deadline, name) for name, answer in begun]
        for seat in seats:
            seat.clear(intents)

    def _carry(self, of: Pass) -> list[Receipt]:
        """Steps 5 and 6: handle what comes until every party has prepared the pass."""
        own, links = self._own, self._own.links
        prepared: dict[str, Receipt] = {}
        while len(prepared) < len(self._others) or own.unfinished is not None:
            arrival = links.receive(self._deadline)
            if arrival is None:
                raise PartyUnavailable(f"No message came in {of} for {self._deadline:g} seconds.")
            connection, message = arrival
            if isinstance(message, GovernError):
                if links.connection_to(connection.peer) is None:  # it was not replaced by a newer connection
                    raise PartyUnavailable(str(message))
            elif message.header.get("session") != own.session:
                self._turn_away(connection, message, "of another session than this one")
            elif message.kind == "prepared" and message.header.get("number") == of.number:
                prepared[connection.peer] = receipt = read_receipt(message, connection.peer)
                own.record.require_prepared(receipt)
                if receipt.party == of.sink:
                    read_metrics(receipt, of)  # before the rest of the pass is waited for
            elif message.kind == "trouble":
                raise read_refusal(message)
            elif message.kind in ("activations", "gradients", "opening"):
                own.carry(connection.peer, message)
            elif message.kind == "link":
                links.use(connection)
            else:
                self._turn_away(connection, message, f"in {of}, which is not its turn")
        return [*prepared.values(), own.wait_until_prepared()]

    def _turn_away(self, connection: Connection, message: Message, why: str) -> None:
        """Ignore a message. If it is a question, its sender gets a refusal."""
        self._own.events.note_refusal(f"'{connection.peer}' says '{message.kind}' {why}.")
        if "question" in message.header:
            with suppress(PartyUnavailable):
                refuse_question(connection, message, PartyUnavailable(f"'{self._own.name}' leads a session itself."))
