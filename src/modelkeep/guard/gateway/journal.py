"""The audit log: what happened, to whom, how often. Never an input, a key or a clean prediction."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter

from modelkeep.core.errors import GuardError
from modelkeep.guard.store.store import Event, Store

EVERY = 0.2  # seconds between two writes
MOST = 10_000  # events that wait for a store that is away; the oldest go first


class Journal:
    """Collects events in memory, and writes them in the background.

    What is asked and refused is counted per principal, so that a flood makes one line per write and not a flood of
    lines. A `kill -9` loses what was counted in the last 0.2 s: budgets, which must not be lost, are leased instead.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._events: list[Event] = []
        self._requests: Counter[tuple[str, str]] = Counter()
        self._rows: Counter[tuple[str, str]] = Counter()
        self._task: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    def note(self, principal: str, action: str, **detail: str | int | float) -> None:
        """One event: a start, a stop, a change of keys."""
        self._events.append(Event(time.time(), principal, action, json.dumps(detail, sort_keys=True)))

    def count(self, principal: str, action: str, rows: int) -> None:
        """One request of many: `answered`, or `refused 429`."""
        self._requests[principal, action] += 1
        self._rows[principal, action] += rows

    def start(self) -> None:
        """Write every 0.2 s from now on."""
        self._task = asyncio.get_running_loop().create_task(self._write_on())

    async def close(self) -> None:
        """Write what is left, once."""
        if self._task is not None:
            self._task.cancel()
        await self.flush()

    async def flush(self) -> None:
        """Write what was collected; a store that is away gets it later."""
        async with self._writing:
            for (principal, action), requests in self._requests.items():
                self.note(principal, action, requests=requests, rows=self._rows[principal, action])
            self._requests.clear()
            self._rows.clear()
            events, self._events = self._events[-MOST:], []
            if not events:
                return
            try:
                await asyncio.to_thread(self._store.write, events)
            except GuardError:  # also where it refused what was asked: the journal must not end because one write did
                self._events = events + self._events

    async def _write_on(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            await self.flush()
