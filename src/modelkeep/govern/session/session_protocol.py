"""A session from its opening to its end: open, settle, close.

the leader                          every party, the leader's own as well
1 open    ── session ─────────▶     1 open      it states where it stands: checkpoints, logged and committed passes
          ◀──────── standing ──
2 settle  ── all standings ───▶     2 settle    it checks and keeps them, and does what follows from them by itself: it
                                                commits what any party has committed, if all had prepared it; it goes to
                                                the newest state that all have. So the leader decides neither.
  passes: see `pass_protocol`
3 close   ── step, committed ─▶     3 close     it writes a checkpoint, if it is where the leader is
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Protocol, TypeVar

from modelkeep.core.errors import ConsentRefused, GovernError, PartyBusy, PartyUnavailable, WireError
from modelkeep.govern.consent.policy import USES
from modelkeep.govern.ledger.entry import Event
from modelkeep.govern.ledger.receipt import Receipt, require_statements
from modelkeep.govern.passes import Pass
from modelkeep.govern.session.links import wait_for
from modelkeep.govern.session.pass_participant import PassParticipant, finish

T = TypeVar("T")


@dataclass(frozen=True)
class Standing:
    """Where a party stands: after which update, with which checkpoints, logged and committed passes.

    `proof` is what all parties stated when they had prepared the last pass that this one has committed.
    """

    receipt: Receipt
    proof: Sequence[Receipt]

    @property
    def party(self) -> str:
        """Whose it is."""
        return self.receipt.party

    @property
    def step(self) -> int | None:
        """After which update it stands; None while one is not committed."""
        step: int | None = self.receipt.event.values["step"]
        return step

    @property
    def checkpoints(self) -> list[int]:
        """After which updates it has a checkpoint."""
        checkpoints: list[int] = self.receipt.event.values["checkpoints"]
        return checkpoints

    @property
    def length(self) -> int:
        """How many passes it has logged."""
        return int(self.receipt.event.values["length"])

    @property
    def committed(self) -> int:
        """How many of these are committed."""
        return int(self.receipt.event.values["committed"])


def read_standing(receipt: Receipt, proof: Sequence[Receipt]) -> Standing:
    """A standing, whose values are checked."""
    values = receipt.event.values
    step, checkpoints = values.get("step"), values.get("checkpoints")
    if not isinstance(checkpoints, list) or any(not _is_count(each) for each in [*checkpoints, step or 0]):
        raise GovernError(f"'{receipt.party}' does not say where it stands.")
    for name in ("length", "committed"):
        if not _is_count(values.get(name)):
            raise WireError(f"'{receipt.party}' must say its '{name}', a number. It says {values.get(name)!r:.40}.")
    return Standing(receipt, proof)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


class SessionSeat(Protocol):
    """A party as the leader of a session speaks to it: to its own one directly, to the others over the wire."""

    @property
    def name(self) -> str: ...
    def open(self, session: str, leader: str, agreement: str) -> Future[Standing]: ...
    def settle(self, standings: Sequence[Standing]) -> Future[None]: ...
    def close(self, step: int, committed: int) -> Future[str]: ...


def open_session(own: SessionParticipant, others: Sequence[SessionSeat]) -> dict[int, Pass]:
    """Open a session that `own` leads. Returns the passes of the training that run again in it, by their step."""
    passes = own.passes
    session, agreement, ledger = token_hex(8), passes.agreement.fingerprint, passes.ledger
    seats, deadline = [*others, own], passes.agreement.wire.deadline
    standings = list(_ask_all(seats, lambda seat: seat.open(session, own.name, agreement), deadline).values())
    committed = max(each.committed for each in standings)
    _ask_all(seats, lambda seat: seat.settle(standings), deadline)
    step = _newest_common_step(standings)
    recorded = {
        entry.of.step: entry.of
        for entry in ledger.entries(step)  # an update's number is never below its step
        if entry.of.purpose == "train" and entry.of.step >= step and entry.number < committed
    }
    shortest = min(each.length for each in standings)
    replayed = min((of.number for of in recorded.values()), default=committed)
    if shortest < min(committed, replayed):
        raise GovernError(f"A party's ledger has only {shortest} of {committed} passes. Run: modelkeep govern audit.")
    return recorded


def close_session(own: SessionParticipant, others: Sequence[SessionSeat]) -> dict[str, str]:
    """End the session: all keep where they stand. Returns the fingerprint of each party's part."""
    step, committed = own.passes.state.pieces.step, own.passes.ledger.committed
    return _ask_all([own, *others], lambda seat: seat.close(step, committed), own.passes.agreement.wire.deadline)


def _ask_all(seats: Sequence[SessionSeat], ask: Callable[[SessionSeat], Future[T]], deadline: float) -> dict[str, T]:
    """Ask all parties at once, and wait for the answers."""
    asked = [(seat.name, ask(seat)) for seat in seats]
    return {name: wait_for(answer, deadline, name) for name, answer in asked}


def _newest_common_step(standings: Sequence[Standing]) -> int:
    """The newest state that all parties have."""
    common = set.intersection(*({*each.checkpoints, each.step} for each in standings)) - {None}
    if not common:
        kept = ", ".join(f"{each.party}: {sorted(each.checkpoints)}" for each in standings)
        raise GovernError(f"There is no checkpoint that all parties have ({kept}). Were some deleted?")
    return max(step for step in common if step is not None)


class SessionParticipant:
    """One party's share of a session, led by any party. `keys` are all parties' public keys by their names."""

    def __init__(self, passes: PassParticipant, keys: Mapping[str, str]) -> None:
        self.name, self.passes, self._keys = passes.name, passes, keys
        for name, prepared in passes.ledger.attempts.unended():
            if prepared is None:  # the process ended in it, and what had come by then is not known
                passes.ledger.attempts.lose(name)

    def open(self, session: str, leader: str, agreement: str) -> Future[Standing]:
        """Join the session of that leader, and state where this party stands."""
        return finish(lambda: self._open(session, leader, agreement))

    def _open(self, session: str, leader: str, agreement: str) -> Standing:
        passes, own = self.passes, self.passes.agreement.fingerprint
        if agreement != own:
            raise GovernError(
                f"'{leader}' holds another agreement ({agreement[:12]}…) than '{self.name}' does ({own[:12]}…). "
                "Nothing starts unless all hold the same one."
            )
        if passes.leader not in ("", leader) and passes.links.connection_to(passes.leader) is not None:
            raise PartyBusy(f"'{self.name}' is busy in a session that '{passes.leader}' leads.")
        if passes.ledger.has_met_in(session):  # what others stated in it then could be shown as if it were of now
            raise GovernError(f"'{leader}' opens a session that was open before. Each has a name of its own.")
        passes.give_up(f"'{leader}' opened another session.")
        passes.record.enter(session)
        passes.leader = leader
        state, ledger = passes.state, passes.ledger
        passes.decision.note_changes()
        values = {
            "session": session,
            "step": state.committed_step,
            "checkpoints": state.checkpoints.steps(),
            "length": ledger.length,
            "committed": ledger.committed,
        }
        standing = ledger.event("standing", f"In a session that '{leader}' leads.", **values)
        return Standing(Receipt(self.name, standing), ledger.prove(ledger.committed - 1))

    def settle(self, standings: Sequence[Standing]) -> Future[None]:
        """Commit what any party has committed, and go to the newest state that all have."""
        return finish(lambda: self._settle(standings))

    def _settle(self, standings: Sequence[Standing]) -> None:
        passes, ledger = self.passes, self.passes.ledger
        receipts = [each.receipt for each in standings]
        require_statements(receipts, "standing", self._keys, {"session": passes.session})
        ledger.receipts.keep(receipts)
        furthest = max(standings, key=lambda each: each.committed)
        if furthest.committed > ledger.length:
            raise GovernError(
                f"The ledger of '{self.name}' has {ledger.length} passes, but {furthest.committed} are committed, says "
                f"'{furthest.party}'. Was it restored from a backup? `modelkeep govern audit` says what is missing."
            )
        for name, prepared in ledger.attempts.unended():
            if prepared is not None:
                self._end(name, prepared, furthest)
        self._catch_up(furthest)
        if furthest.committed > ledger.committed:
            raise WireError(f"'{furthest.party}' does not prove that pass {ledger.committed} was prepared by all.")
        self._go_to(_newest_common_step(standings))
        passes.record.settled = True

    def _end(self, name: str, prepared: Event, furthest: Standing) -> None:
        """End an attempt that this party has prepared: commit it if any party has, and give it up otherwise."""
        ledger, number = self.passes.ledger, int(prepared.values["number"])
        of = ledger.entry(number).of
        if not ledger.committed <= number < furthest.committed:
            ledger.attempts.settle(name, prepared, "given up", f"No party has committed {of}.")
            return
        about = {key: prepared.values[key] for key in ("pass", "number", "attempt", "session")}
        require_statements(furthest.proof, "prepared", self._keys, about)
        with ledger.change():
            ledger.receipts.keep(furthest.proof)
            ledger.commit(number)
            ledger.attempts.settle(
                name, prepared, "committed", f"'{furthest.party}' has committed {of}, and all prepared it."
            )

    def _catch_up(self, furthest: Standing) -> None:
        """Commit what this party had given up, if another one has committed it: a leader may have told it otherwise.

        All had prepared it, so it counts. Otherwise the two could never go on together.
        """
        ledger = self.passes.ledger
        if furthest.committed <= ledger.committed:
            return
        own = next((each for each in furthest.proof if each.party == self.name), None)
        prepared = None if own is None else ledger.attempts.find("prepared", str(own.event.values.get("attempt")))
        if prepared is None:
            return
        number = int(prepared.values["number"])
        if number < ledger.length and ledger.entry(number).hash == prepared.values["entry"]:
            self._end(str(prepared.values["attempt"]), prepared, furthest)

    def _go_to(self, step: int) -> None:
        """Go to the state after `step` updates. Where that is another one, it is a use of the model like the others."""
        state, decision = self.passes.state, self.passes.decision
        if state.committed_step != step:
            reasons = [decision.withdrawal(purpose) for purpose in USES]
            if None not in reasons:
                raise ConsentRefused(
                    f"'{self.name}' has withdrawn its consent to everything: {reasons[0] or 'no reason given'}. It "
                    f"does not go back to the state after {step} updates until it says: modelkeep govern restore"
                )
        state.go_to(step)

    def close(self, step: int, committed: int) -> Future[str]:
        """Keep where this party stands, and leave the session. The fingerprint of its part of the weights."""
        state, ledger = self.passes.state, self.passes.ledger
        if (state.committed_step, ledger.committed) != (step, committed):  # the last commit may have been lost
            raise PartyUnavailable(
                f"'{self.name}' stands after {state.committed_step} updates and {ledger.committed} passes, and the "
                f"leader after {step} and {committed}. The session must be opened again before it can end."
            )
        self.passes.give_up()
        state.keep()
        ledger.sync()
        self.leave()
        return finish(lambda: state.pieces.fingerprint())

    def leave(self) -> None:
        """Be in no session, and forget a pass under way."""
        self.passes.give_up()
        self.passes.record.enter("")
        self.passes.leader = ""
