"""One pass from top to bottom: ask, consent, begin, carry, prepare, commit.

    the leader                           every party, the leader's own as well
    1 ask     ── the pass ─────────▶
              ◀───────── consent ──      2 consent   its rules, its policies and its approvers allow the pass; it signs
    3 begin   ── all consents ─────▶     3 begin     it checks every signature; the source starts to compute
                                         4 carry     activations go forward and gradients back, from party to party
              ◀──────── prepared ──      5 prepare   it writes its ledger entry and takes the optimizer's step
    6 commit  ── commit ───────────▶     6 commit    the pass counts

`PassLeader` is the left side and `PassParticipant` the right one. What goes wrong ends the pass: `give_up`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from modelkeep.core.errors import ConsentPending, ConsentRefused, GovernError, PartyUnavailable, WireError
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.consent.decision import ConsentDecision
from modelkeep.govern.ledger.entry import Entry
from modelkeep.govern.ledger.event_log import EventLog
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.ledger.writer import LedgerWriter, What
from modelkeep.govern.passes import Consent, Pass, Purpose
from modelkeep.govern.piece.checkpoints import PieceState
from modelkeep.govern.piece.computation import Computation, make_route
from modelkeep.govern.piece.materials import Materials
from modelkeep.govern.piece.payload import Payload
from modelkeep.govern.session.links import Links, wait_for
from modelkeep.govern.session.messages import read_metrics, read_refusal, refuse_question
from modelkeep.govern.session.rules import require_agreed, require_consents, require_turn
from modelkeep.govern.session.status import Status
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.message import Message

MakePass = Callable[[int, int], Pass]


class PassSeat(Protocol):
    """A party as the leader of a pass speaks to it: to its own one directly, to the others over the wire."""

    @property
    def name(self) -> str: ...
    def ask(self, of: Pass) -> Future[Consent]: ...
    def begin(self, of: Pass, consents: Sequence[Consent]) -> None: ...
    def commit(self, number: int) -> None: ...


class PassLeader:
    """Leads passes, one after the other, within a session.

    `recorded` are passes of the training that run again after a fault, by their step. `on_fault` hears of a fault
    after the pass was committed. `patience` is how many seconds to wait for a party that has not decided yet.
    """

    def __init__(
        self,
        own: PassParticipant,
        others: Sequence[PassSeat],
        patience: float,
        tell: Callable[[str], None],
        on_fault: Callable[[PartyUnavailable], object],
    ) -> None:
        self._own, self._others = own, others
        self._patience, self._tell, self._on_fault = patience, tell, on_fault
        self._deadline = own.agreement.wire.deadline
        self._asked: dict[str, list[tuple[str, Future[Consent]]]] = {}
        self.recorded: dict[int, Pass] = {}

    def run(self, purpose: Purpose, make: MakePass) -> dict[str, float]:
        """Lead the next pass, which `make(number, step)` describes. Returns what it measured."""
        own = self._own
        of = self._choose(purpose, make, own.ledger.committed, own.state.pieces.step)
        consents = self._collect_consents(of)
        for seat in (*self._others, own):  # the own one last: it computes at once
            seat.begin(of, consents)
        if purpose == "train" and of.step + 1 < own.state.pieces.total:  # ask while this pass is under way
            self._ask(self._choose(purpose, make, max(own.ledger.committed, of.number + 1), of.step + 1))
        metrics = self._carry(of)
        own.commit(of.number)  # from here on the pass counts and is never made again, whatever happens to the others
        try:
            for seat in self._others:
                seat.commit(of.number)
            own.state.keep_when_due()
        except PartyUnavailable as error:
            self._on_fault(error)
        return metrics

    def give_up(self) -> None:
        """Forget the pass under way, and what was asked for."""
        self._own.give_up()
        self._asked.clear()

    def _choose(self, purpose: Purpose, make: MakePass, number: int, step: int) -> Pass:
        """The pass for these weights: the one in the ledger, where it was made before a fault."""
        return (self.recorded.get(step) if purpose == "train" else None) or make(number, step)

    def _ask(self, of: Pass) -> None:
        """Step 1."""
        others = [(seat.name, seat.ask(of)) for seat in self._others]  # they decide while the own party does
        self._asked[of.digest] = [(self._own.name, self._own.ask(of)), *others]

    def _collect_consents(self, of: Pass) -> list[Consent]:
        """Step 2: every party's consent. Where a party has not decided yet, ask again until patience ends."""
        until = time.monotonic() + self._patience
        while True:
            if of.digest not in self._asked:
                self._ask(of)
            try:
                consents = [wait_for(answer, self._deadline, name) for name, answer in self._asked.pop(of.digest)]
                return sorted(consents, key=lambda consent: consent.party)
            except ConsentPending as error:
                if time.monotonic() > until:
                    raise
                self._tell(str(error))
                time.sleep(min(error.seconds, 5.0))

    def _carry(self, of: Pass) -> dict[str, float]:
        """Steps 4 and 5: handle what comes until every party has prepared the pass."""
        own, links = self._own, self._own.links
        missing = {seat.name for seat in self._others}
        metrics: dict[str, float] = {}
        while missing or own.unfinished is not None:
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
                missing.discard(connection.peer)
                if connection.peer == of.sink:
                    metrics = read_metrics(message, of)
            elif message.kind == "trouble":
                raise read_refusal(message)
            elif message.kind in ("activations", "gradients"):
                own.carry(connection.peer, message)
            elif message.kind == "link":
                links.use(connection)
            else:
                self._turn_away(connection, message, f"in {of}, which is not its turn")
        return {**metrics, **own.wait_until_prepared()}

    def _turn_away(self, connection: Connection, message: Message, why: str) -> None:
        """Ignore a message. If it is a question, its sender gets a refusal."""
        self._own.events.note_refusal(f"'{connection.peer}' says '{message.kind}' {why}.")
        if "question" in message.header:
            with suppress(PartyUnavailable):
                refuse_question(connection, message, PartyUnavailable(f"'{self._own.name}' leads a session itself."))


@dataclass(eq=False)
class PassParticipant:
    """One party's share of the passes, led by any party.

    `session` and `leader` say in which session the party is. `answers` are the logits of the last inference that went
    to this party. `on_prepared` hears of each prepared pass and what it measured, `on_crossing` of all that crosses:
    after which stage, and in which micro-batch.
    """

    name: str
    agreement: Agreement
    ledger: Ledger
    events: EventLog
    writer: LedgerWriter
    decision: ConsentDecision
    state: PieceState
    materials: Materials
    links: Links
    status: Status
    session: str = ""
    leader: str = ""
    answers: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    on_prepared: Callable[[Future[Entry], dict[str, float]], None] = lambda entry, metrics: None
    on_crossing: Callable[[Computation, What, int, int, Payload], None] = lambda *crossed: None
    _computation: Computation | None = None
    _prepared: Future[Entry] | None = None
    _ended: bool = False
    _early: list[tuple[str, Message]] = field(default_factory=list)
    _past: deque[str] = field(default_factory=lambda: deque(maxlen=16))
    _pending: str = ""

    @property
    def unfinished(self) -> Pass | None:
        """The pass under way, as long as this party still waits for activations or gradients of it."""
        return None if self._computation is None or self._computation.done else self._computation.of

    # ---- 2 consent

    def ask(self, of: Pass) -> Future[Consent]:
        """Decide at once, for the leader of this same process."""
        answer: Future[Consent] = Future()
        try:
            answer.set_result(self.consent(of))
        except ConsentRefused as error:
            answer.set_exception(error)
        return answer

    def consent(self, of: Pass) -> Consent:
        """This party's consent to a pass, or ConsentRefused with the reason."""
        try:
            require_agreed(of, self.agreement)
            if not 0 <= of.number <= self.ledger.length + 1:  # the next one, or the one after it, asked for ahead
                raise ConsentRefused(f"{of} is out of turn: the next pass at '{self.name}' is {self.ledger.length}.")
            consent = self.decision.give(of)
        except ConsentRefused as error:
            self.status.note_refusal(of, str(error))
            if not isinstance(error, ConsentPending) or of.digest != self._pending:  # it is asked for again and again
                self.events.note_refusal(str(error))
            self._pending = of.digest
            raise
        self.status.note_consent(of)
        return consent

    # ---- 3 begin

    def begin(self, of: Pass, consents: Sequence[Consent]) -> None:
        """Start a pass to which all have consented. The source computes its stage and sends the first activations."""
        if of.digest in self._past or (self._computation is not None and of == self._computation.of):
            self.events.note_refusal(f"{of} was begun twice. The second time is ignored.")
            return
        if self._computation is not None:
            raise WireError(f"{of} cannot begin: {self._computation.of} is still under way.")
        require_turn(of, self.agreement, self.ledger, self.state.committed_step)
        require_consents(of, consents, self.agreement)
        self.decision.require_not_withdrawn(of)
        route = make_route(self.agreement.holders, of.source, of.sink)
        x, y = self.materials.inputs(of), self.materials.labels(of)
        self.writer.begin(of, consents)
        self._prepared, self._ended = None, False
        self.status.note_begin(of)
        self._computation = computation = Computation(of, route, self.state.pieces, x, y)
        self.state.uncommitted = computation.training
        if route[0].holder == self.name:
            for part in range(computation.parts):
                self._send_on(computation, 0, part, computation.forward(0, part))
        self._prepare_when_done(computation)  # the pass may need nothing that this party holds
        early, self._early = self._early, []
        for peer, message in early:
            self.carry(peer, message)

    # ---- 4 carry

    def carry(self, peer: str, message: Message) -> None:
        """Compute with activations or gradients that came, and send on what results."""
        computation, digest = self._computation, message.header.get("pass")
        if not self.session or message.header.get("session") != self.session or digest in self._past:
            self.events.note_refusal(
                f"'{peer}' sent {message.kind} of a session or a pass that is over. They are ignored."
            )
        elif computation is None or digest != computation.of.digest:
            # The sender may have learned sooner that a pass has begun; that is one pass at most.
            if len(self._early) < 4 * self.agreement.recipe.micro_batches * len(self.agreement.holders):
                self._early.append((peer, message))
            else:
                self.events.note_refusal(f"'{peer}' sent {message.kind} of a pass that has not begun.")
        elif computation.due(peer, message.kind, message.header.get("leg"), message.header.get("part")):
            self._compute(computation, peer, message)
        else:
            number, part = (f"{message.header.get(name)!r:.40}" for name in ("leg", "part"))
            self.events.note_refusal(
                f"'{peer}' sent {message.kind} for micro-batch {part} of stage {number} in {computation.of}, and none "
                "are due from it: they came twice, too soon, or from the wrong party. They are ignored."
            )

    def _compute(self, computation: Computation, peer: str, message: Message) -> None:
        number: Any = message.header["leg"]  # the stage; the wire has kept its first name
        part: Any = message.header["part"]
        payload = Payload.read(message)
        what: What = "activations" if message.kind == "activations" else "gradients"
        computation.require_fit(what, number, part, payload, f"The {what} of {computation.of} from '{peer}'")
        at = number - 1 if what == "activations" else number
        if what == "activations":
            self.decision.require_not_withdrawn(computation.of)
        self.writer.note_received(peer, what, at, part, message.tensors)
        self.on_crossing(computation, what, at, part, payload)
        if what == "activations":
            self._send_on(computation, number, part, computation.forward(number, part, payload))
            return
        if computation.is_last(number, part) and computation.route[number].source and self.leader == self.name:
            self._prepared = self.writer.finish()  # all has crossed: the entry is written beside the backward pass
        self._send_back(computation, number, part, computation.backward(number, part, payload))

    def _send_on(self, computation: Computation, number: int, part: int, payload: Payload | None) -> None:
        """Send what a stage gave to the next one, or back where the route ends here."""
        if computation.route[number].sink:
            self._send_back(computation, number, part, payload)
        else:
            assert payload is not None
            self._send(computation, number + 1, number, part, "activations", payload)

    def _send_back(self, computation: Computation, number: int, part: int, payload: Payload | None) -> None:
        if payload is None:  # no gradient goes further back
            self._prepare_when_done(computation)
        else:
            self._send(computation, number - 1, number - 1, part, "gradients", payload)

    def _send(self, computation: Computation, to: int, at: int, part: int, what: What, payload: Payload) -> None:
        of, peer = computation.of, computation.route[to].holder
        payload.require_finite(f"The {what} of {of} at '{self.name}'")
        message = payload.message(what, {"session": self.session, "pass": of.digest, "leg": to, "part": part})
        if self.links.connection_to(peer) is None:
            self.links.dial(peer, self.agreement.wire.deadline)
            self.links.send(peer, Message("link", {"session": self.session}))
        self.links.send(peer, message)
        self.writer.note_sent(peer, what, at, part, message.tensors)
        self.on_crossing(computation, what, at, part, payload)
        self._prepare_when_done(computation)

    # ---- 5 prepare

    def _prepare_when_done(self, computation: Computation) -> None:
        """When this party has computed its share: write the ledger entry, and take the optimizer's step."""
        if not computation.done or self._ended:
            return
        self._ended = True
        if computation.training:
            self.state.pieces.require_finite(f"{computation.of}")
        if self._prepared is None:
            self._prepared = self.writer.finish()
        self.on_prepared(self._prepared, computation.metrics)
        if computation.training:
            self.state.pieces.update()
        elif computation.answers:
            self.answers = torch.cat([computation.answers[part] for part in range(computation.parts)])
        self.status.note_end(computation.of, computation.metrics)

    def wait_until_prepared(self) -> dict[str, float]:
        """What this party measured, once its ledger entry is written."""
        assert self._computation is not None
        assert self._prepared is not None
        self._prepared.result()
        return self._computation.metrics

    # ---- 6 commit

    def commit(self, number: int) -> None:
        """All parties have prepared the pass: it counts."""
        computation, prepared = self._computation, self._prepared
        if number < self.ledger.committed and (computation is None or computation.of.number != number):
            return  # the message came before
        if computation is None or computation.of.number != number or prepared is None or not prepared.done():
            raise WireError(f"Pass {number} cannot be committed: '{self.name}' has not prepared it in this session.")
        prepared.result()  # it may have failed, with the entry of another attempt still there
        self.ledger.commit(number)
        self._past.append(computation.of.digest)
        self._computation = None
        self.state.uncommitted = False

    def give_up(self) -> None:
        """Forget a pass that cannot be finished, but not that it had begun."""
        if self._computation is not None:
            of = self._computation.of
            with suppress(GovernError):  # a full disk, or a missing file: then this party gives no consent anyway
                self.decision.count_unfinished(of)
            came, left = self.writer.crossed
            self.events.write("given up", f"{of} broke off after {came} messages had come and {left} had left.")
        self._computation = self._prepared = None
        self._early.clear()
        self._past.clear()
        self.state.pieces.forget_gradients()
