"""EventLog: writes what happens besides the passes into a party's ledger, at a limited rate."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from modelkeep.core.errors import PartyUnavailable
from modelkeep.govern.ledger.ledger import Ledger

_LONGEST = 1000  # characters of what others say that are written down
_MOST = 200  # events in a minute


class EventLog:
    """Writes events into the ledger, and passes each text on to `on_event`, such as a live view."""

    def __init__(self, ledger: Ledger, on_event: Callable[[str], None]) -> None:
        self._ledger, self._on_event = ledger, on_event
        self._times: deque[float] = deque(maxlen=_MOST)
        self._left_out = 0

    def note_refusal(self, sentence: str) -> None:
        """Write down a refusal."""
        self.write("refused", sentence)

    def write(self, kind: str, text: str) -> None:
        """Write an event down. A full disk is not an error here: it may be the very trouble that is reported.

        Other parties can cause a flood of events, so only `_MOST` of a minute are written.
        """
        self._on_event(text)
        now = monotonic()
        if len(self._times) == _MOST and now - self._times[0] < 60:
            self._left_out += 1
            return
        more = f" ({self._left_out} events before it were too many to write down.)" if self._left_out else ""
        self._times.append(now)
        self._left_out = 0
        with suppress(PartyUnavailable):
            self._ledger.event(kind, text[:_LONGEST] + more)
