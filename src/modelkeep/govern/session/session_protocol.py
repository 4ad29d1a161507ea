"""A session from its opening to its end: open, settle, rewind, close.

the leader                          every party, the leader's own as well
1 open    ── session ─────────▶     1 open      it says where it stands: checkpoints, logged and committed passes
          ◀──────── standing ──
2 settle  ── committed ───────▶     2 settle    what one party has committed, all have logged: it commits them too
3 rewind  ── step ────────────▶     3 rewind    it goes to the newest state that all parties have
  passes: see `pass_protocol`
4 close   ── step, committed ─▶     4 close     it writes a checkpoint, if it is where the leader is
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from secrets import token_hex
from typing import Protocol, TypeVar

from modelkeep.core.errors import GovernError, PartyUnavailable
from modelkeep.govern.passes import Pass
from modelkeep.govern.session.links import wait_for
from modelkeep.govern.session.pass_participant import PassParticipant

T = TypeVar("T")


@dataclass(frozen=True)
class Standing:
    """Where a party stands: after which update, with which checkpoints, logged and committed passes."""

    standing: int | None
    checkpoints: list[int]
    length: int
    committed: int


class SessionSeat(Protocol):
    """A party as the leader of a session speaks to it: to its own one directly, to the others over the wire."""

    @property
    def name(self) -> str: ...
    def open(self, session: str, leader: str, agreement: str) -> Future[Standing]: ...
    def settle(self, committed: int) -> Future[None]: ...
    def rewind(self, step: int) -> Future[None]: ...
    def close(self, step: int, committed: int) -> Future[str]: ...


def open_session(own: SessionParticipant, others: Sequence[SessionSeat]) -> dict[int, Pass]:
    """Open a session that `own` leads. Returns the passes of the training that run again in it, by their step."""
    passes = own.passes
    session, agreement, ledger = token_hex(8), passes.agreement.fingerprint, passes.ledger
    seats, deadline = [*others, own], passes.agreement.wire.deadline
    standings = _ask_all(seats, lambda seat: seat.open(session, own.name, agreement), deadline)
    committed = max(each.committed for each in standings.values())
    if committed > ledger.length:
        raise GovernError(
            f"The ledger of '{own.name}' has {ledger.length} passes, but {committed} are committed. Was it restored "
            "from a backup? `modelkeep govern audit` says what is missing."
        )
    _ask_all(seats, lambda seat: seat.settle(committed), deadline)
    step = _newest_common_step(standings)
    _ask_all(seats, lambda seat: seat.rewind(step), deadline)
    recorded = {
        entry.of.step: entry.of
        for entry in ledger.entries(step)  # an update's number is never below its step
        if entry.of.purpose == "train" and entry.of.step >= step and entry.number < committed
    }
    shortest = min(each.length for each in standings.values())
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


def _newest_common_step(standings: dict[str, Standing]) -> int:
    """The newest state that all parties have."""
    common = set.intersection(*({*each.checkpoints, each.standing} for each in standings.values())) - {None}
    if not common:
        kept = ", ".join(f"{name}: {sorted(each.checkpoints)}" for name, each in standings.items())
        raise GovernError(f"There is no checkpoint that all parties have ({kept}). Were some deleted?")
    return max(step for step in common if step is not None)


class SessionParticipant:
    """One party's share of a session, led by any party."""

    def __init__(self, passes: PassParticipant) -> None:
        self.name, self.passes = passes.name, passes

    def open(self, session: str, leader: str, agreement: str) -> Future[Standing]:
        """Join the session of that leader, and say where this party stands."""
        passes, own = self.passes, self.passes.agreement.fingerprint
        if agreement != own:
            raise GovernError(
                f"'{leader}' holds another agreement ({agreement[:12]}…) than '{self.name}' does ({own[:12]}…). "
                "Nothing starts unless all hold the same one."
            )
        if passes.leader not in ("", leader) and passes.links.connection_to(passes.leader) is not None:
            raise PartyUnavailable(f"'{self.name}' is busy in a session that '{passes.leader}' leads.")
        passes.give_up()
        passes.session, passes.leader = session, leader
        state, ledger = passes.state, passes.ledger
        return _finish(Standing(state.committed_step, state.checkpoints.steps(), ledger.length, ledger.committed))

    def settle(self, committed: int) -> Future[None]:
        """Commit what another party has committed: all had logged it before."""
        ledger = self.passes.ledger
        if committed and ledger.length:
            ledger.commit(min(committed, ledger.length) - 1)
        return _finish(None)

    def rewind(self, step: int) -> Future[None]:
        """Go to the state after `step` updates."""
        self.passes.give_up()
        self.passes.state.go_to(step)
        return _finish(None)

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
        return _finish(state.pieces.fingerprint())

    def leave(self) -> None:
        """Be in no session, and forget a pass under way."""
        self.passes.session = self.passes.leader = ""
        self.passes.give_up()


def _finish(value: T) -> Future[T]:
    answer: Future[T] = Future()
    answer.set_result(value)
    return answer
