"""PassParticipant: one party's share of a pass, in the order of its steps; `pass_protocol` shows the whole.

2 consent, 3 begin, 4 carry, 5 prepare, 6 commit. What goes wrong ends the pass: `give_up`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from modelkeep.core.errors import ConsentPending, ConsentRefused, GovernError, WireError
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.consent.decision import ConsentDecision
from modelkeep.govern.ledger.entry import Entry
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.ledger.writer import EventLog, LedgerWriter, What
from modelkeep.govern.passes import Consent, Pass
from modelkeep.govern.piece.checkpoints import PieceState
from modelkeep.govern.piece.computation import Computation, make_route
from modelkeep.govern.piece.materials import Materials
from modelkeep.govern.piece.payload import Payload
from modelkeep.govern.session.links import Links
from modelkeep.govern.session.rules import require_agreed, require_consents, require_turn
from modelkeep.govern.session.status import Status
from modelkeep.govern.wire.message import Message


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
