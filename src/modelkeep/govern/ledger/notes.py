"""Notes: a party's account of what happens besides the passes, kept short where others make much happen."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from time import monotonic

from modelkeep.core.errors import PartyUnavailable
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.session.status import Status

_LONGEST = 1000  # characters of what others say that are written down
_MOST = 200  # events in a minute


class Notes:
    """Writes events into the ledger, and tells the live view of the last one."""

    def __init__(self, ledger: Ledger, status: Status) -> None:
        self._ledger, self._status = ledger, status
        self._times: deque[float] = deque(maxlen=_MOST)
        self._left_out = 0

    def refused(self, sentence: str) -> None:
        """Write down that somebody or something was refused."""
        self.write("refused", sentence)

    def write(self, kind: str, text: str) -> None:
        """Write an event down, if the disk has room for it: there may be trouble because it has none.

        Of a flood, which others can bring about, only so much that it does not fill the disk.
        """
        self._status.news = text
        now = monotonic()
        if len(self._times) == _MOST and now - self._times[0] < 60:
            self._left_out += 1
            return
        more = f" ({self._left_out} events before it were too many to write down.)" if self._left_out else ""
        self._times.append(now)
        self._left_out = 0
        with suppress(PartyUnavailable):
            self._ledger.event(kind, text[:_LONGEST] + more)
