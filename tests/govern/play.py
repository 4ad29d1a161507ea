"""Play: one training of several parties, and all that goes wrong in it."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from statistics import median

from govern.faulty_party import Faulty, Order
from govern.proxy import Damage, Proxy
from modelkeep.govern.agreement.agreement import Agreement
from ports import free_port
from processes import PATIENCE


@dataclass(frozen=True)
class Signal:
    """`kill -9`, or a pause of the whole process for some `seconds`."""

    act: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Fault:
    """What happens to a `party` (or on the way to it) once the model has had `at` updates."""

    at: int
    party: str
    what: Order | Damage | Signal


@dataclass
class Told:
    """What the run saw; `problems` is empty if all is well.

    `noticed` are the seconds from when the leader noticed a fault until the next update, `slowest` the longest times
    without an update, with the last fault before it; `judged` are the accuracy and the loss in the end.
    """

    parties: int
    updates: int
    faults: dict[str, int] = field(default_factory=dict)
    starts: int = 0
    recoveries: int = 0
    passes: int = 0
    judged: tuple[float, float] | None = None
    seconds: float = 0.0
    slowest: list[tuple[float, str]] = field(default_factory=list)
    noticed: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def replayed(self) -> int:
        """Passes that ran again, as far as they were told of."""
        return self.passes - self.updates

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} × {kind}" for kind, count in self.faults.items()) or "none"
        slowest = "".join(f"\n  {seconds} s after {fault}" for seconds, fault in self.slowest)
        return (
            f"{self.updates} updates of {self.parties} parties with {sum(self.faults.values())} faults: {kinds}.\n"
            f"{self.starts - self.parties} processes started again, {self.recoveries} recoveries, {self.replayed} "
            f"passes replayed, {self.seconds / 60:.1f} minutes. Half of the noticed faults were mended in "
            f"{median(self.noticed or [0.0]):.2f} s. The longest times without an update:{slowest}\n"
            + ("\n".join(self.problems) or "The same weights, the same ledgers, nothing found by the audit.")
        )


class Play:
    """One training, and what happens in it."""

    def __init__(
        self,
        agreement: Agreement,
        root: Path,
        names: Sequence[str],
        faults: Sequence[Fault],
        told: Told,
        say: Callable[[str], None],
    ) -> None:
        self.told, self._say = told, say
        self._to_come = sorted(faults, key=lambda fault: fault.at)
        self._count: Counter[str] = Counter()
        ports = {name: free_port() for name in names}
        self._proxies = {
            name: Proxy(agreement.member(name).address, ports[name], seed) for seed, name in enumerate(names)
        }
        self._parties = {
            name: Faulty(root / name, ports[name], leads=name == names[0], n=agreement.data.rows) for name in names
        }
        self._resuming: list[tuple[float, Faulty]] = []
        self._step = 0
        self._moved = time.monotonic()
        self._last_fault = ""
        self._noticed: float | None = None

    def run(self) -> Told:
        """Until the training is complete, or stuck."""
        began = time.monotonic()
        try:
            while self.told.judged is None and not self.told.problems:
                self._listen()
                self._resume()
                self._revive()
                while self._to_come and self._to_come[0].at <= self._step and self.told.judged is None:
                    self._inject(self._to_come.pop(0))
                if time.monotonic() - self._moved > PATIENCE:
                    self._give_up(f"stuck after {self._step} updates; the last fault was {self._last_fault}")
        finally:
            for party in self._parties.values():
                party.end()
            for proxy in self._proxies.values():
                proxy.close()
        for party in self._parties.values():
            self._count.update(order.act for order in party.done)
        for proxy in self._proxies.values():
            self._count.update(damage.act for damage in proxy.done)
        self.told.faults = dict(sorted(self._count.items()))
        self.told.starts = sum(party.starts for party in self._parties.values())
        self.told.seconds = round(time.monotonic() - began, 1)
        self.told.slowest = sorted(self.told.slowest, reverse=True)[:5]
        return self.told

    def _listen(self) -> None:
        pipes = [party.pipe for party in self._parties.values()]
        wait([*pipes, *(party.process.sentinel for party in self._parties.values())], timeout=0.01)
        for name, party in self._parties.items():
            for kind, value in party.heard():
                if kind == "ready" and party.leads:
                    self.told.passes -= 1  # it first tells where it stands
                elif kind == "step":
                    self._advance(value)
                elif kind == "over":
                    self.told.judged = value
                elif kind == "told":
                    self._noticed = self._noticed or time.monotonic()
                    self._tell(f"{name} says: {value}")
                elif kind == "did":
                    self._note(f"{name}: {value}")
                elif kind == "failed" and party.leads:
                    self.told.problems.append(f"{name} {value}")

    def _advance(self, step: int) -> None:
        now = time.monotonic()
        if self._last_fault and now - self._moved > 1.0:
            self.told.slowest.append((round(now - self._moved, 1), self._last_fault))
        if self._noticed is not None:
            self.told.noticed.append(round(now - self._noticed, 3))
        self._moved, self._step, self._noticed = now, step, None
        self.told.passes += 1

    def _revive(self) -> None:
        """Start again who was killed, or has killed itself on order."""
        for party in self._parties.values():
            if not party.process.is_alive() and self.told.judged is None:
                for kind, value in party.heard():
                    if kind == "over":
                        self.told.judged = value
                        return
                party.start()

    def _resume(self) -> None:
        now = time.monotonic()
        for due, party in [each for each in self._resuming if each[0] <= now]:
            party.signal(signal.SIGCONT)
            self._resuming.remove((due, party))

    def _inject(self, fault: Fault) -> None:
        party = self._parties[fault.party]
        if isinstance(fault.what, Order):
            party.order(fault.what)
        elif isinstance(fault.what, Damage):
            self._proxies[fault.party].order(fault.what)
            self._note(f"{fault.party}: {fault.what}")
        else:
            self._count[fault.what.act] += 1
            self._note(f"{fault.party}: {fault.what}")
            party.signal(signal.SIGKILL if fault.what.act == "kill" else signal.SIGSTOP)
            if fault.what.act == "pause":
                self._resuming.append((time.monotonic() + fault.what.seconds, party))

    def _note(self, fault: str) -> None:
        self._last_fault = fault
        self._tell(fault)

    def _tell(self, text: str) -> None:
        self._say(f"{time.monotonic() - self._moved:5.1f} s after update {self._step}, {text}")

    def _give_up(self, problem: str) -> None:
        """Let all say where they are (in their logs)."""
        self.told.problems.append(problem)
        for party in self._parties.values():
            party.signal(signal.SIGCONT)
            party.signal(signal.SIGUSR1)
        time.sleep(1.0)
