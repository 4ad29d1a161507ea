"""Party: one owner's side of a governed model: what it holds, what it consents to, and its share of every pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import Any, Self

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import ConsentPending, ConsentRefused, GovernError, WireError
from modelkeep.govern.agreement.rules import require_agreed, require_consents, require_turn
from modelkeep.govern.consent.decision import Consenting
from modelkeep.govern.consent.policy import Policy
from modelkeep.govern.consent.state import ConsentState
from modelkeep.govern.documents import read_document
from modelkeep.govern.folder import Folder
from modelkeep.govern.ledger.entry import Entry
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.ledger.notes import Notes
from modelkeep.govern.ledger.writer import Scribe, What
from modelkeep.govern.piece.checkpoints import Checkpoints
from modelkeep.govern.piece.files import read_piece
from modelkeep.govern.piece.holding import Holding
from modelkeep.govern.piece.materials import Materials
from modelkeep.govern.session.computation import Passage
from modelkeep.govern.session.links import Links, answer, refuse
from modelkeep.govern.session.passes import Consent, Pass, read_pass
from modelkeep.govern.session.payload import Load, require_fit
from modelkeep.govern.session.route import legs
from modelkeep.govern.session.status import Status
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.message import Message


class Party:
    """One party, in one process, with all that lies in its folder.

    `data` are the data sets that it can bring inputs or labels of. Used by `serve` and `Leader`, which give it the
    messages that come.

    Args:
        folder: The party's folder.
        data: What it brings inputs or labels of.
        device: Where its pieces compute.
    """

    def __init__(self, folder: Folder, *, data: Iterable[Data] = (), device: str = "cpu") -> None:
        with ExitStack() as opened:
            opened.enter_context(folder.lock())
            self.identity = folder.identity()
            self.name = self.identity.name
            self.agreement = folder.signed_agreement()
            self.ledger = opened.enter_context(Ledger(folder.ledger, self.name, self.identity.signer))
            state = ConsentState(folder.consent)
            opened.callback(state.close)
            policies = [self.agreement.policy(self.name)]
            if folder.policy.exists():
                policies.append(read_document(Policy, folder.policy, "a policy"))
            self.consenting = Consenting(policies, state, self.name, self.identity.signer, self.ledger)
            self.checkpoints = Checkpoints(folder.checkpoints)
            self.holding = Holding(
                self.agreement, self.name, read_piece(folder.piece, self.agreement, self.name), device
            )
            self._stand_up()
            self.materials = Materials(self.name, data)
            self.answers = torch.empty(0)
            self.scribe = Scribe(self.ledger, self.agreement.wire)
            opened.callback(self.scribe.close)
            self.status = Status(self.name)
            self.notes = Notes(self.ledger, self.status)
            self.session = ""
            self.leader = ""
            self.passage: Passage | None = None
            self.prepared: Future[Entry] | None = None
            self._ended = False
            self._early: list[tuple[Connection, Message]] = []
            self._past: deque[str] = deque(maxlen=16)
            self._pending = ""
            self.links = Links(self.agreement, self.identity, self._at_once, self.notes.refused)
            opened.callback(self.links.close)
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections, write down what is to be written, and leave the folder to others."""
        self._opened.close()

    # ---- where it stands

    @property
    def standing(self) -> int | None:
        """After how many updates its part of the model is; None while there is one that is not committed."""
        return None if self._between else self.holding.step

    def stand_at(self, step: int) -> None:
        """Go (back) to the state after so many updates, and keep it: all parties have this one in common."""
        self.give_up()
        if self.standing != step:
            self.holding.restore(self.checkpoints.read(step))
            self._between = False
            self.ledger.event("rewound", f"Went to the checkpoint after {step} updates.", step=step)
        self.checkpoints.forget_after(step)
        self.keep()

    def keep(self) -> None:
        """Write a checkpoint; all passes that led to it are on disk before it."""
        if self.standing is not None and self.standing not in self.checkpoints.steps():
            self.ledger.sync()
            self.checkpoints.write(self.holding.step, self.holding.snapshot())

    def _stand_up(self) -> None:
        self._between = False
        steps = self.checkpoints.steps()
        if steps:
            self.holding.restore(self.checkpoints.read(steps[-1]))
        else:
            self.keep()

    # ---- consent

    def consent(self, of: Pass) -> Consent:
        """This party's consent to a pass, or ConsentRefused with the reason."""
        try:
            require_agreed(of, self.agreement)
            if not 0 <= of.number <= self.ledger.length + 1:  # the next one, or the one after it, asked for ahead
                raise ConsentRefused(f"{of} is out of turn: the next pass at '{self.name}' is {self.ledger.length}.")
            given = self.consenting.give(of)
        except ConsentRefused as error:
            self.status.refused(of, str(error))
            if not isinstance(error, ConsentPending) or of.digest != self._pending:  # it is asked for again and again
                self.notes.refused(str(error))
            self._pending = of.digest
            raise
        self.status.consented(of)
        return given

    def _at_once(self, connection: Connection, message: Message) -> bool:
        """Answer a question for consent while a pass is under way; keep no tensors that nobody can be waiting for."""
        if message.tensors and message.header.get("session") != self.session:
            self.notes.refused(f"'{connection.peer}' sent tensors of a session that is over, or of none.")
            return True
        if message.kind != "ask":
            return False
        try:
            of = read_pass(message.header.get("pass", {}))
            self._require_leader(connection, of)
            answer(connection, message, {"consent": asdict(self.consent(of))})
        except GovernError as error:
            refuse(connection, message, error)
        return True

    def _require_leader(self, connection: Connection, of: Pass) -> None:
        if connection.peer != of.asker or connection.peer != self.leader:
            raise WireError(
                f"'{connection.peer}' asks for {of}, but the session is led by '{self.leader or 'nobody'}'."
            )

    # ---- one pass

    def begin(self, of: Pass, consents: Sequence[Consent]) -> None:
        """Start a pass to which all have consented; where this party brings the inputs, send them on their way."""
        if of.digest in self._past or (self.passage is not None and of == self.passage.of):
            self.notes.refused(f"{of} was begun twice. The second time is not looked at.")
            return
        self._require_turn(of)
        require_consents(of, consents, self.agreement)
        self.consenting.still(of)
        way = legs(self.agreement.holders, of.source, of.sink)
        x, y = self.materials.inputs(of), self.materials.labels(of)
        self.scribe.begin(of, consents)
        self.prepared, self._ended = None, False
        self.status.began(of)
        self.passage = Passage(of, way, self.holding, x, y)
        self._between = self.passage.training
        if way[0].holder == self.name:
            for part in range(self.passage.parts):
                self._pass_on(0, part, self.passage.forward(0, part))
        self._finish_when_done()  # it may hold nothing that this pass needs
        early, self._early = self._early, []
        for connection, message in early:
            self.take(connection, message)

    def take(self, connection: Connection, message: Message) -> None:
        """Activations or gradients have come."""
        passage, digest = self.passage, message.header.get("pass")
        if not self.session or message.header.get("session") != self.session or digest in self._past:
            self.notes.refused(
                f"'{connection.peer}' sent {message.kind} of a session or a pass that is over. They are not looked at."
            )
            return
        if passage is None or digest != passage.of.digest:
            # Another party may be told sooner that a pass has begun; that is one pass at most.
            if len(self._early) < 4 * self.agreement.recipe.micro_batches * len(self.agreement.holders):
                self._early.append((connection, message))
            else:
                self.notes.refused(f"'{connection.peer}' sent {message.kind} of a pass that has not begun.")
            return
        number: Any = message.header.get("leg")
        part: Any = message.header.get("part")
        if not passage.due(connection.peer, message.kind, number, part):
            self.notes.refused(
                f"'{connection.peer}' sent {message.kind} for micro-batch {part!r:.40} of leg {number!r:.40} in "
                f"{passage.of}, and none are due from it: they came twice, too soon, or are not its own. Nobody looks "
                "at them."
            )
            return
        load = Load.of(message)
        where = f"The {message.kind} of {passage.of} from '{connection.peer}'"
        load.require_finite(where)
        if message.kind == "activations":
            self.consenting.still(passage.of)
            first = passage.way[number].pieces[:1] or (len(self.agreement.holders),)
            require_fit(load, self.holding.expected[passage.training][first[0]], passage.rows(part), where)
            self.scribe.received(connection.peer, "activations", number - 1, part, message.tensors)
            self.on_crossing(passage, "activations", number - 1, part, load)
            self._pass_on(number, part, passage.forward(number, part, load))
        else:
            passage.require_fit(number, part, load)
            self.scribe.received(connection.peer, "gradients", number, part, message.tensors)
            self.on_crossing(passage, "gradients", number, part, load)
            if passage.is_last(number, part) and passage.way[number].source and self.leader == self.name:
                self.prepared = self.scribe.finish()  # all has crossed: it is written down beside the backward pass
            self._pass_back(number, part, passage.backward(number, part, load))

    def give_up(self) -> None:
        """Forget a pass that cannot be finished, but not that it had begun."""
        if self.passage is not None:
            with suppress(GovernError):  # a disk that is full, or a file that was taken away: then nobody consents
                self.consenting.broke_off(self.passage.of)
            came, left = self.scribe.crossed
            self.notes.write(
                "given up", f"{self.passage.of} broke off after {came} messages had come and {left} had left."
            )
        self.passage = self.prepared = None
        self._early.clear()
        self._past.clear()
        self.holding.forget_gradients()

    def commit(self, number: int) -> None:
        """All parties have prepared the pass: it counts, and where it leads to can be stood at."""
        passage, prepared = self.passage, self.prepared
        if number < self.ledger.committed and (passage is None or passage.of.number != number):
            return  # it was told before
        if passage is None or passage.of.number != number or prepared is None or not prepared.done():
            raise WireError(f"Pass {number} cannot be committed: '{self.name}' has not prepared it in this session.")
        prepared.result()  # it may have failed, with the entry of another attempt still there
        self.ledger.commit(number)
        self._past.append(passage.of.digest)
        self.passage = None
        self._between = False

    def keep_when_due(self) -> None:
        """Write a checkpoint after every so many updates."""
        if self.holding.step % self.agreement.checkpoint_every == 0:
            self.keep()

    def _require_turn(self, of: Pass) -> None:
        """Refuse a pass that was before, or comes too soon; what runs again after a fault is in the ledger."""
        if of.agreement != self.agreement.fingerprint:
            raise GovernError(f"{of} is of another agreement ({of.agreement[:12]}…).")
        if self.passage is not None:
            raise WireError(f"{of} cannot begin: {self.passage.of} is still under way.")
        require_turn(of, self.ledger)
        if self._between or of.step != self.holding.step:
            raise WireError(f"{of} is for weights after {of.step} updates; '{self.name}' is at {self.standing}.")

    def _pass_on(self, number: int, part: int, load: Load | None) -> None:
        """Send what a leg gave to the next one, or back where the way ends here."""
        assert self.passage is not None
        if self.passage.way[number].sink:
            self._pass_back(number, part, load)
        else:
            assert load is not None
            self._send(number + 1, number, part, "activations", load)
            self._finish_when_done()

    def _pass_back(self, number: int, part: int, load: Load | None) -> None:
        if load is not None:
            self._send(number - 1, number - 1, part, "gradients", load)
        self._finish_when_done()

    def _send(self, to: int, at: int, part: int, what: What, load: Load) -> None:
        assert self.passage is not None
        of, peer = self.passage.of, self.passage.way[to].holder
        load.require_finite(f"The {what} of {of} at '{self.name}'")
        header = {"session": self.session, "pass": of.digest, "leg": to, "part": part}
        message = load.message(what, header)
        if self.links.to(peer) is None:
            self.links.dial(peer, self.agreement.wire.deadline)
            self.links.send(peer, Message("link", {"session": self.session}))
        self.links.send(peer, message)
        self.scribe.sent(peer, what, at, part, message.tensors)
        self.on_crossing(self.passage, what, at, part, load)

    def _finish_when_done(self) -> None:
        """When this party has computed its share: write it down, and take the step."""
        passage = self.passage
        if passage is None or not passage.done or self._ended:
            return
        self._ended = True
        if passage.training:
            self.holding.require_finite(f"{passage.of}")
        if self.prepared is None:
            self.prepared = self.scribe.finish()
        self.on_prepared(passage, self.prepared)
        if passage.training:
            self.holding.update()
        elif passage.answers:
            self.answers = torch.cat([passage.answers[part] for part in range(passage.parts)])
        self.status.ended(passage.of, passage.metrics)

    on_prepared: Callable[[Passage, Future[Entry]], None] = staticmethod(lambda passage, entry: None)
    # What crosses after which leg, in which micro-batch; see `govern.recording`.
    on_crossing: Callable[[Passage, What, int, int, Load], None] = staticmethod(lambda *crossed: None)
