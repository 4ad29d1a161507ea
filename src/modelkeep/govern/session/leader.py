"""Leader: the party that leads sessions and passes, and begins again after faults."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from modelkeep.core.errors import ConsentRefused, GovernError, PartyBusy, PartyUnavailable
from modelkeep.govern.passes import Purpose
from modelkeep.govern.session.member import RemoteParty
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.pass_protocol import MakePass, PassLeader
from modelkeep.govern.session.session_protocol import close_session, open_session
from modelkeep.govern.session.turn import YIELDING

T = TypeVar("T")
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 1.0  # seconds between two tries to open a session; each wait doubles the one before
_LOOK_UP = 0.2  # seconds between two looks at whether to stop


class Leader:
    """Leads sessions for one party.

    Args:
        party: The party that leads.
        patience: For how many seconds to try again to reach a party that is gone, and to wait for a human.
        tell: Called with a sentence that says what the leader waits for.
        stopped: Says whether to stop before the next pass, and to wait for nothing any more; None: never.
        take_part: Takes part in what others lead for some seconds, while no session can be opened; None: only waits.
    """

    def __init__(
        self,
        party: Party,
        *,
        patience: float = 600.0,
        tell: Callable[[str], None] = lambda text: None,
        stopped: Callable[[], bool] | None = None,
        take_part: Callable[[float], None] | None = None,
    ) -> None:
        self.party, self.patience, self._tell = party, patience, tell
        self.stopped, self._take_part = stopped, take_part
        names = [member.name for member in party.agreement.parties]
        self._others = [RemoteParty(party.links, name) for name in names if name != party.name]
        self._passes = PassLeader(party.passes, self._others, patience, tell, self._break_off, self._wait_in_session)
        self.recoveries = 0
        self._open = False
        self._trouble_since: float | None = None
        self._wait = _FIRST_WAIT
        self._reached = 0

    def run(self, purpose: Purpose, make: MakePass) -> dict[str, float]:
        """One pass with all parties' consent; after a fault it runs again. `make(number, step)` says which one."""
        self._require_not_stopped()
        return self._recover(lambda: self._passes.run(purpose, make))

    def meet(self) -> None:
        """Open a session, if none is open."""
        self._recover(lambda: None)

    def close(self) -> dict[str, str]:
        """End the session: all keep where they stand. The fingerprint of each party's part."""
        return self._recover(self._close)

    def leave(self) -> None:
        """Lead no more, whatever came of it: a session that is still open ends, and others may lead."""
        if self._open:
            with suppress(GovernError):  # the others find out when the connections end
                self._close()
        self._release()

    def _recover(self, work: Callable[[], T]) -> T:
        """Do the work in an open session; after a fault, open it again and do the work again."""
        while True:
            try:
                if not self._open:
                    self._open_session()
                found = work()
                if self.party.ledger.committed > self._reached:  # what runs again is not yet progress
                    self._trouble_since = None
                return found
            except ConsentRefused as error:
                self._abort(error)
                raise
            except PartyUnavailable as error:
                if time.monotonic() - self._break_off(error) > self.patience:
                    self._trouble_since = None
                    raise PartyUnavailable(f"Tried again for {self.patience:g} seconds. {error}") from error
                self._tell(str(error))
                self._wait_for_turn(YIELDING if self.party.turn.yields else self._wait)
                self._wait = min(2 * self._wait, _LONGEST_WAIT)
            except GovernError as error:
                self._abort(error)
                self._open = False
                raise

    def _open_session(self) -> None:
        self._passes.give_up()
        self.party.turn.take()
        self.party.sessions.leave()
        self.party.links.disconnect()
        for other in self._others:
            self.party.links.dial(other.name, self.party.agreement.wire.deadline)
        self._passes.recorded = open_session(self.party.sessions, self._others)
        self.party.turn.open()
        self._open = True

    def _close(self) -> dict[str, str]:
        fingerprints = close_session(self.party.sessions, self._others)
        self._open = False
        self._trouble_since = None
        self.party.turn.release()
        return fingerprints

    def _release(self) -> None:
        """Be in no session."""
        self._open = False
        self._passes.give_up()
        self.party.sessions.leave()
        self.party.links.disconnect()
        self.party.turn.release()

    def _wait_for_turn(self, seconds: float) -> None:
        """Wait before the next try to open a session; a party that serves takes part in those of others meanwhile."""
        if self._take_part is None:
            self._wait_in_session(seconds)
            return
        self._release()
        self._take_part(seconds)
        self._require_not_stopped()

    def _wait_in_session(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._require_not_stopped()
            time.sleep(min(left, _LOOK_UP))

    def _require_not_stopped(self) -> None:
        if self.stopped is not None and self.stopped():
            raise GovernError("It was stopped before its end. What was completed until then counts.")

    def _break_off(self, error: PartyUnavailable) -> float:
        """After a fault the session is opened again. Returns since when no new pass was committed."""
        self._abort(error)
        self._open = False
        if self._trouble_since is None:
            self._trouble_since, self._wait = time.monotonic(), _FIRST_WAIT
            self._reached = self.party.ledger.committed
            if not isinstance(error, PartyBusy):
                self.recoveries += 1
                self.party.events.write("recovering", str(error))
        return self._trouble_since

    def _abort(self, error: GovernError) -> None:
        """Stop the pass everywhere, with the reason."""
        self._passes.give_up(str(error))
        for other in self._others if not isinstance(error, PartyBusy) else []:
            other.abort(error)
        if self.party.state.committed_step is None:
            self._open = False  # a pass was under way: all must go back to the last common state
