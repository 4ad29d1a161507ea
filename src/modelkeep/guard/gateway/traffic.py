"""What happened lately in this replica, second by second, for the dashboard: a ring in memory that never grows."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

SECONDS = 300  # that are remembered
LATELY = 10  # seconds that a rate is an average over
_LATENCIES = 1000  # latest requests that percentiles are taken over


class PerSecond:
    """Counts of the last `length` seconds.

    >>> counts = PerSecond(3)
    >>> counts.add(100, 5), counts.add(102, 1)
    (None, None)
    >>> counts.until(102), counts.until(104)
    ([5, 0, 1], [1, 0, 0])
    """

    def __init__(self, length: int) -> None:
        self._count = [0] * length
        self._second = [-1] * length

    def add(self, second: int, count: int) -> None:
        """Count in this second; what the place held of an older one is forgotten."""
        place = second % len(self._count)
        if self._second[place] != second:
            self._second[place], self._count[place] = second, 0
        self._count[place] += count

    def until(self, second: int) -> list[int]:
        """The counts of each second up to this one, oldest first."""
        length = len(self._count)
        places = [(at, at % length) for at in range(second - length + 1, second + 1)]
        return [self._count[place] if self._second[place] == at else 0 for at, place in places]


@dataclass
class Asker:
    """One principal, since this replica was started."""

    requests: int = 0
    rows: int = 0
    refused: Counter[int] = field(default_factory=Counter)  # by HTTP status
    lately: PerSecond = field(default_factory=lambda: PerSecond(LATELY))


class Traffic:
    """Counts requests and refusals; called on the event loop, a microsecond or two each.

    `centroids` says how many there are now, once it was set; it is asked once per second of traffic.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.started = clock()
        self.rows = PerSecond(SECONDS)
        self.refusals = PerSecond(SECONDS)
        self.askers: dict[str, Asker] = {}
        self.seconds: deque[float] = deque(maxlen=_LATENCIES)
        self.growth: deque[tuple[int, int]] = deque(maxlen=SECONDS)  # (second, centroids)
        self.centroids: Callable[[], int] = lambda: 0
        self.clock = clock

    def count_answer(self, principal: str, rows: int, seconds: float) -> None:
        """A request was answered."""
        now = int(self.clock())
        asker = self._asker(principal)
        asker.requests += 1
        asker.rows += rows
        asker.lately.add(now, rows)
        self.rows.add(now, rows)
        self.seconds.append(seconds)
        if not self.growth or self.growth[-1][0] != now:
            self.growth.append((now, self.centroids()))

    def count_refusal(self, principal: str, status: int) -> None:
        """A request was refused."""
        self._asker(principal).refused[status] += 1
        self.refusals.add(int(self.clock()), 1)

    def _asker(self, principal: str) -> Asker:
        found = self.askers.get(principal)
        if found is None:
            found = self.askers[principal] = Asker()
        return found
