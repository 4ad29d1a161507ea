"""PassParticipant: one party's share of a pass, in the order of its steps; `pass_protocol` shows the whole.

2 consent, 3 begin, 4 clear, 5 carry, 6 prepare, 7 commit. What goes wrong ends the pass: `give_up`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from modelkeep.core.errors import ConsentPending, ConsentRefused, GovernError, WireError
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.consent.decision import ConsentDecision
from modelkeep.govern.consent.policy import USES
from modelkeep.govern.ledger.entry import Crossing
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.ledger.writer import EventLog, LedgerWriter, What
from modelkeep.govern.passes import Consent, Pass, name_attempt
from modelkeep.govern.piece.checkpoints import PieceState
from modelkeep.govern.piece.computation import Computation, make_route
from modelkeep.govern.piece.materials import Materials
from modelkeep.govern.piece.openings import Openings
from modelkeep.govern.piece.payload import Payload
from modelkeep.govern.session.admission import Admission
from modelkeep.govern.session.draw import draw
from modelkeep.govern.session.links import Links
from modelkeep.govern.session.pass_record import PassRecord
from modelkeep.govern.session.rules import require_agreed, require_turn
from modelkeep.govern.session.spot_check import SpotCheck
from modelkeep.govern.session.status import Status
from modelkeep.govern.wire.message import Message


@dataclass(eq=False)
class PassParticipant:
    """One party's share of the passes, led by any party.

    `leader` leads the session that the party is in. `answers` are the logits of the last inference that went to this
    party. `on_prepared` hears of each prepared pass, `on_crossing` of all that crosses: after which stage, and in which
    micro-batch.
    """

    name: str
    agreement: Agreement
    ledger: Ledger
    events: EventLog
    writer: LedgerWriter
    decision: ConsentDecision
    record: PassRecord
    state: PieceState
    materials: Materials
    links: Links
    status: Status
    openings: Openings
    leader: str = ""
    answers: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    on_prepared: Callable[[Pass, Future[Receipt]], None] = lambda of, prepared: None
    on_crossing: Callable[[Computation, What, int, int, Payload], None] = lambda *crossed: None
    _computation: Computation | None = None
    _prepared: Future[Receipt] | None = None
    _ended: bool = False
    _admission: Admission = field(default_factory=Admission)
    _early: list[tuple[str, Message]] = field(default_factory=list)
    _outbox: list[Callable[[], None]] = field(default_factory=list)
    _buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    _pending: str = ""

    @property
    def session(self) -> str:
        """The session that the party is in; empty where it is in none."""
        return self.record.session

    @property
    def unfinished(self) -> Pass | None:
        """The pass under way, as long as this party still waits for activations or gradients of it."""
        return None if self._computation is None or self._computation.done else self._computation.of

    # ---- 2 consent

    def ask(self, of: Pass) -> Future[Consent]:
        """Decide at once, for the leader of this same process."""
        return finish(lambda: self.consent(of))

    def consent(self, of: Pass) -> Consent:
        """This party's consent to a pass, or ConsentRefused with the reason."""
        try:
            require_agreed(of, self.agreement)
            if not 0 <= of.number <= self.ledger.length + 1:  # the next one, or the one after it, asked for ahead
                raise ConsentRefused(f"{of} is out of turn: the next pass at '{self.name}' is {self.ledger.length}.")
            consent = self.record.consent(of)
        except ConsentRefused as error:
            self.status.note_refusal(of, str(error))
            if not isinstance(error, ConsentPending) or of.digest != self._pending:  # it is asked for again and again
                self.events.note_refusal(str(error), of)
            self._pending = of.digest
            raise
        self.status.note_consent(of)
        return consent

    # ---- 3 begin

    def begin(self, of: Pass, consents: Sequence[Consent]) -> Future[Receipt]:
        """State the intent to make a pass to which all have consented. The source computes, and sends nothing yet."""
        return finish(lambda: self._begin(of, consents))

    def _begin(self, of: Pass, consents: Sequence[Consent]) -> Receipt:
        attempt = self.record.attempt
        if attempt is not None and self.record.intent is not None and attempt.name == name_attempt(consents):
            self.events.note_refusal(f"{of} was begun twice. The second time is ignored.")
            return self.record.intent
        if self._computation is not None:
            raise WireError(f"{of} cannot begin: {self._computation.of} is still under way.")
        require_turn(of, self.agreement, self.ledger, self.state.committed_step)
        x, y = self.materials.inputs(of), self.materials.labels(of)
        intent = self.record.begin(of, consents)
        self.writer.begin(of)
        self._prepared, self._ended = None, False
        self.status.note_begin(of)
        self.openings.begin(of, x)
        if of.purpose == "check":
            self._computation = SpotCheck(of, self.state.pieces)
            return intent
        route = make_route(self.agreement.holders, of.source, of.sink) if of.purpose in USES else ()
        self._computation = computation = Computation(of, route, self.state.pieces, x, y)
        if computation.begins:  # beside the others, who state their intents meanwhile
            self._buffers = self.state.pieces.copy_buffers()
            self._send_on(computation, 0, 0, computation.forward(0, 0))
        return intent

    # ---- 4 clear

    def clear(self, receipts: Sequence[Receipt]) -> None:
        """Every party has stated its intent: from now on activations and gradients may cross."""
        if self.record.cleared:
            self.events.note_refusal("The intents of all parties came twice. The second time is ignored.")
            return
        self.record.clear(receipts)
        self._buffers = {}
        computation = self._computation
        assert computation is not None
        self.state.uncommitted = computation.training
        outbox, self._outbox = self._outbox, []
        for send in outbox:
            send()
        if computation.begins:
            for part in range(1, computation.parts):
                self._send_on(computation, 0, part, computation.forward(0, part))
        if isinstance(computation, SpotCheck) and computation.of.sink == self.name:
            self._open(computation)
        self._prepare_when_done(computation)  # the pass may need nothing that this party holds
        early, self._early = self._early, []
        for peer, message in early:
            self.carry(peer, message)

    # ---- 5 carry

    def admits(self, peer: str, kind: str, header: Mapping[str, Any], size: int) -> bool:
        """Whether tensors that are announced may come at all; asked before any memory is taken for them."""
        refusal = self._admission.admit(self._computation, self.session, peer, kind, header, size)
        if refusal:
            self.events.note_refusal(refusal)
        return not refusal

    def carry(self, peer: str, message: Message) -> None:
        """Compute with activations or gradients that came, and send on what results."""
        computation = self._computation
        place = (message.header.get("leg"), message.header.get("part"))
        if computation is None or message.header.get("pass") != computation.of.digest:
            self.events.note_refusal(f"'{peer}' sent {message.kind} of a pass that is over. They are ignored.")
        elif not self.record.cleared:  # its sender has all intents already
            self._early.append((peer, message))
        elif computation.due(peer, message.kind, *place):
            if isinstance(computation, SpotCheck):
                self._examine(computation, peer, message)
            else:
                self._compute(computation, peer, message)

    def _open(self, check: SpotCheck) -> None:
        """Show the asker of a check from what follows what this party sent in the pass that was drawn."""
        octets = self.openings.open(self._draw(check.of), self.ledger, self.materials)
        header = {"session": self.session, "pass": check.of.digest, "leg": 0, "part": 0}
        self.links.send(check.of.asker, Message("opening", header, (octets,)))
        self.writer.note_sent(check.of.asker, "opening", 0, 0, (octets,))
        check.opened = True

    def _examine(self, check: SpotCheck, peer: str, message: Message) -> None:
        """Compute again what was opened."""
        self.writer.note_received(peer, "opening", 0, 0, message.tensors)
        check.examine(message.tensors[0], self._draw(check.of), self.ledger)
        self._prepare_when_done(check)

    def _draw(self, of: Pass) -> int:
        return draw(self.record.joined, self.ledger, of.number, self.agreement.limits.checked_passes)

    def _compute(self, computation: Computation, peer: str, message: Message) -> None:
        number: Any = message.header["leg"]  # the stage; the wire has kept its first name
        part: Any = message.header["part"]
        payload = Payload.read(message)
        what: What = "activations" if message.kind == "activations" else "gradients"
        where = f"The {what} of {computation.of} from '{peer}'"
        computation.require_fit(what, number, part, payload, where)
        payload.require_within(self.agreement.limits.magnitude, where)
        at = number - 1 if what == "activations" else number
        if what == "activations":
            self.decision.require_not_withdrawn(computation.of)
        self.writer.note_received(peer, what, at, part, message.tensors)
        self.openings.note(peer, message)
        self.on_crossing(computation, what, at, part, payload)
        if what == "activations":
            self._send_on(computation, number, part, computation.forward(number, part, payload))
            return
        if computation.is_last(number, part) and computation.route[number].source and self.leader == self.name:
            self._log(computation)  # all has crossed: the entry is written beside the backward pass
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
        if not self.record.cleared:
            self._outbox.append(lambda: self._send(computation, to, at, part, what, payload))
            return
        of, peer = computation.of, computation.route[to].holder
        payload.require_within(self.agreement.limits.magnitude, f"The {what} of {of} at '{self.name}'")
        message = payload.message(what, {"session": self.session, "pass": of.digest, "leg": to, "part": part})
        if self.links.connection_to(peer) is None:
            self.links.dial(peer, self.agreement.wire.deadline)
            self.links.send(peer, Message("link", {"session": self.session}))
        self.links.send(peer, message)
        self.writer.note_sent(peer, what, at, part, message.tensors)
        self.on_crossing(computation, what, at, part, payload)
        self._prepare_when_done(computation)

    # ---- 6 prepare

    def _log(self, computation: Computation) -> None:
        """Let the ledger's thread write the entry, and state that it is prepared."""
        of, metrics = computation.of, dict(computation.metrics)
        told: dict[str, Any] = {}
        if of.purpose == "release":
            told["piece"] = self.state.pieces.fingerprint()
        elif isinstance(computation, SpotCheck) and computation.verdict:
            told["verdict"] = computation.verdict

        def prepare(sent: list[Crossing], received: list[Crossing]) -> Receipt:
            kept = self.openings.keep(of) if of.purpose in USES else {}
            return self.record.prepare(sent, received, metrics, {**told, **kept})

        self._prepared = self.writer.finish(prepare)

    def _prepare_when_done(self, computation: Computation) -> None:
        """When this party has computed its share: write the ledger entry, and take the optimizer's step."""
        if not computation.done or self._ended or not self.record.cleared:
            return
        self._ended = True
        if computation.training:
            self.state.pieces.require_finite(f"{computation.of}")
        if self._prepared is None:
            self._log(computation)
        assert self._prepared is not None
        self.on_prepared(computation.of, self._prepared)
        if computation.training:
            self.state.pieces.update()
        elif computation.answers:
            self.answers = torch.cat([computation.answers[part] for part in range(computation.parts)])
        self.status.note_end(computation.of, computation.metrics)

    def wait_until_prepared(self) -> Receipt:
        """What this party has stated, once its ledger entry is written."""
        assert self._prepared is not None
        return self._prepared.result()

    # ---- 7 commit

    def commit(self, number: int, receipts: Sequence[Receipt]) -> None:
        """All parties have prepared the pass: it counts."""
        computation, prepared = self._computation, self._prepared
        if number < self.ledger.committed and (computation is None or computation.of.number != number):
            return  # the message came before
        if computation is None or computation.of.number != number or prepared is None or not prepared.done():
            raise WireError(f"Pass {number} cannot be committed: '{self.name}' has not prepared it in this session.")
        prepared.result()  # it may have failed, with the entry of another attempt still there
        self.record.commit(number, receipts)
        self._forget()
        self.state.uncommitted = False

    def give_up(self, why: str = "It broke off.") -> None:
        """Forget a pass that cannot be finished, but not that it had begun."""
        if self._prepared is not None:
            with suppress(GovernError):  # wait until it is known whether it was prepared
                self._prepared.result()
        if self._computation is not None and not self.record.cleared:
            self.state.pieces.restore_buffers(self._buffers)  # nothing has crossed: this party is where it was
            self._buffers = {}
        of = self.record.attempt.of if self.record.attempt is not None else None
        if of is not None:
            came, left = self.writer.crossed
            told = f"{of} broke off after {came} messages had come and {left} had left. {why}"
            with suppress(GovernError):  # a full disk: it is counted as lost when this party starts again
                self.record.give_up(told, self.writer.received())
        self._forget()
        self.state.pieces.forget_gradients()

    def _forget(self) -> None:
        self._computation = self._prepared = None
        self._admission.forget()
        self._early.clear()
        self._outbox.clear()


def finish(work: Callable[[], Any]) -> Future[Any]:
    """An answer that is there at once, as another party's would come later."""
    answer: Future[Any] = Future()
    try:
        answer.set_result(work())
    except GovernError as error:
        answer.set_exception(error)
    return answer
