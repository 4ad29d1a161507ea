"""Service: a party's process takes part in what others lead, and leads itself where a command asks it to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

from modelkeep.core import progress
from modelkeep.core.errors import GovernError, PartyBusy, PartyUnavailable
from modelkeep.govern.session.leader import Leader
from modelkeep.govern.session.member import handle_loss, handle_message, report_prepared, report_trouble
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.requests import Outcome, Request, perform
from modelkeep.govern.session.turn import YIELDING

_LOOK_UP = 0.5  # seconds between two looks at whether to stop


class Call(progress.Watcher, Protocol):
    """A command that waits for the outcome of its request, and sees the progress."""

    @property
    def request(self) -> Request: ...
    @property
    def since(self) -> float: ...
    def is_gone(self) -> bool: ...
    def tell(self, text: str) -> None: ...
    def finish(self, outcome: Outcome) -> None: ...
    def fail(self, error: Exception) -> None: ...


class Calls(Protocol):
    """The commands that wait, the first of them first. `wake` is called when one comes."""

    wake: Callable[[], None]

    def first(self) -> Call | None: ...
    def remove(self, call: Call) -> None: ...


def serve(party: Party, stop: threading.Event, calls: Calls | None = None) -> None:
    """Take part until `stop` is set, and lead what `calls` ask for. A fault ends the pass, but never the serving."""
    service = _Service(party, stop)
    party.events.write("serving", f"'{party.name}' serves at {party.links.address}.")
    if calls is not None:
        calls.wake = party.links.wake
    while not stop.is_set():
        service.step(_LOOK_UP)
        if calls is not None and (call := calls.first()) is not None:
            service.consider(call, calls)
    party.state.keep()


class _Service:
    """One thread does all of it, a message or a request after the other."""

    def __init__(self, party: Party, stop: threading.Event) -> None:
        self._party, self._stop = party, stop
        self._silent = 0.0
        self._rests_until = 0.0
        party.turn.release()
        party.passes.on_prepared = partial(report_prepared, party.passes)

    def step(self, timeout: float) -> None:
        """Handle the next message, if one comes in time."""
        party, passes = self._party, self._party.passes
        arrival = party.links.receive(timeout, wakes=True)
        if arrival is None:
            with suppress(GovernError):  # a file that cannot be read now is read at the next pass
                passes.decision.note_changes()
        self._silent = 0.0 if arrival is not None or passes.unfinished is None else self._silent + timeout
        try:
            if self._silent > party.agreement.wire.deadline:
                raise PartyUnavailable(f"No further message came in {passes.unfinished} for {self._silent:g} s.")
            if arrival is not None:
                connection, message = arrival
                if isinstance(message, GovernError):
                    handle_loss(party, connection, message)
                else:
                    handle_message(party, connection, message)
        except Exception as error:  # what others send, or a disk, may cause anything; the serving goes on
            self._silent = 0.0
            report_trouble(party, error)

    def consider(self, call: Call, calls: Calls) -> None:
        """Lead what the call asks for, if it is this party's turn; else tell what it waits for."""
        leader = self._party.passes.leader
        if call.is_gone():
            calls.remove(call)
        elif not leader and time.monotonic() >= self._rests_until:
            self._lead(call)
            calls.remove(call)
        elif time.monotonic() > call.since + call.request.patience:
            call.fail(PartyBusy(f"It waited {call.request.patience:g} seconds: {_describe_session(leader)}."))
            calls.remove(call)
        else:
            call.tell(f"{_describe_session(leader)}.")

    def _lead(self, call: Call) -> None:
        party, request = self._party, call.request

        def stopped() -> bool:
            return self._stop.is_set() or call.is_gone()

        leader = Leader(
            party,
            patience=request.patience,
            tell=call.tell,
            stopped=stopped,
            take_part=lambda seconds: self._take_part(seconds, stopped),
        )
        try:
            with progress.watch(call):
                outcome = perform(leader, request)
        except Exception as error:  # whatever a request causes, the serving goes on
            call.fail(error)
            party.status.add_news(f"A command to {request.verb} ended: {error}")
        else:
            call.finish(outcome)
        finally:
            self._rests_until = time.monotonic() + YIELDING * party.turn.turned_away
            leader.leave()

    def _take_part(self, seconds: float, stopped: Callable[[], bool]) -> None:
        """Take part for some seconds, and to the end of a session that another party opens meanwhile."""
        until = time.monotonic() + seconds
        while not stopped() and (self._party.passes.leader or time.monotonic() < until):
            self.step(max(0.01, min(_LOOK_UP, until - time.monotonic())))


def _describe_session(leader: str) -> str:
    return f"'{leader}' leads a session now" if leader else "Another party goes first"
