"""Chaos for a governed training: parties are killed, paused, out of disk, and all that they send is lost, doubled,
delayed, damaged and cut, again and again, while they train one model.

In the end every party's weights must have the bits, and every ledger the entries, of a run that nothing disturbed.
`python tests/govern/chaos.py --faults 200` is the whole run; tests/govern/test_faults.py the short one.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from statistics import median
from typing import IO

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))  # run as a program, it stands beside nothing

from govern.faulty_party import Faulty, Order
from govern.parties import digits, found, model_of
from govern.proxy import Damage, Proxy
from modelkeep.govern.agreement import Agreement
from modelkeep.govern.checkpoints import Checkpoints
from modelkeep.govern.folder import Folder
from modelkeep.govern.ledger.audit import audit
from modelkeep.govern.ledger.reading import open_reading
from modelkeep.govern.wire.settings import Wire
from modelkeep.training import SGD, Recipe, cross_entropy, fit
from ports import free_port

ROWS = 96
DEADLINE = 2.0
STUCK = 60.0  # seconds without an update after which the run is given up


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


class Stage:
    """Parties that can train the same model again and again, from the same start and under the same agreement.

    Of two parties the second has the labels, of three the first.
    """

    def __init__(self, root: Path, parties: int, updates: int, every: int = 5) -> None:
        cuts, holders = (["2"], ["alice", "bob"]) if parties == 2 else (["1", "4"], ["alice", "bob", "carol"])
        recipe = Recipe(steps=updates, batch_size=16, optimizer=SGD(momentum=0.9), learning_rate=0.05, micro_batches=2)
        data = digits(ROWS)
        self.root, self.updates = root, updates
        self.agreement, _ = found(
            root / "start",
            model_of("digit_network", data),
            data,
            cuts=cuts,
            holders=holders,
            labels=holders[-1] if parties == 2 else holders[0],
            recipe=recipe,
            wire=Wire(deadline=DEADLINE),
            checkpoint_every=every,
        )
        self.names = holders
        one = model_of("digit_network", data)
        fit(one, data, cross_entropy, recipe, seed=self.agreement.seed)
        self.weights = {name: value.detach() for name, value in one.module.state_dict().items()}
        self._plays = 0
        self.entries: dict[str, list[str]] = {}
        self.judged: tuple[float, float] | None = None
        undisturbed = self.play([])
        if undisturbed.problems:
            raise AssertionError(f"The undisturbed run failed: {undisturbed.problems}")

    def play(self, faults: Sequence[Fault], say: Callable[[str], None] = lambda text: None) -> Told:
        """Train from the start with these faults, and compare with what was never disturbed."""
        self._plays += 1
        root = self.root / f"play-{self._plays}"
        shutil.copytree(self.root / "start", root)
        told = Play(self.agreement, root, self.names, faults, Told(len(self.names), self.updates), say).run()
        if not told.problems:
            self._compare(root, told)
        if told.problems:  # what the parties said helps to find out why
            told.problems += [f"{log}:\n{log.read_text()[-3000:]}" for log in sorted(root.glob("*/log"))]
        return told

    def _compare(self, root: Path, told: Told) -> None:
        ledgers = {name: Folder(root / name).ledger for name in self.names}
        entries = {name: [e.line() for e in open_reading(path).entries()] for name, path in ledgers.items()}
        self.entries = self.entries or entries
        self.judged = self.judged or told.judged
        if told.judged != self.judged:
            told.problems.append(f"accuracy and loss are {told.judged}, and undisturbed {self.judged}")
        weights: dict[str, torch.Tensor] = {}
        for name in self.names:
            if entries[name] != self.entries[name]:
                told.problems.append(f"the ledger of {name} is another one: {len(entries[name])} entries")
            kept = Checkpoints(Folder(root / name).checkpoints)
            weights |= kept.read(kept.steps()[-1]).part("piece/")
        differing = [name for name, value in self.weights.items() if not torch.equal(weights[name], value)]
        if differing or weights.keys() != self.weights.keys():
            told.problems.append(f"other weights than in one process: {differing}")
        told.problems += [str(finding) for finding in audit(self.agreement, ledgers).findings]
        told.recoveries = sum(event.kind == "recovering" for event in open_reading(ledgers[self.names[0]]).events())


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
        self._parties = {name: Faulty(root / name, ports[name], leads=name == names[0], n=ROWS) for name in names}
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
                if time.monotonic() - self._moved > STUCK:
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


KINDS: dict[str, Callable[[random.Random], Order | Damage | Signal]] = {
    "kill": lambda draw: Signal("kill"),
    "pause": lambda draw: Signal("pause", draw.uniform(0.1, 1.5 * DEADLINE)),
    "drop": lambda draw: Order("drop", skip=draw.randrange(12)),
    "late": lambda draw: Order("late", skip=draw.randrange(12), seconds=draw.uniform(0.01, 1.5 * DEADLINE)),
    "twice": lambda draw: Order("twice", skip=draw.randrange(12)),
    "die before": lambda draw: Order("die before", skip=draw.randrange(12)),
    "die after": lambda draw: Order("die after", skip=draw.randrange(12)),
    "die writing": lambda draw: Order("die writing"),
    "full": lambda draw: Order("full", seconds=draw.uniform(0.2, 1.0)),
    "flip": lambda draw: Damage("flip", least=draw.choice((1, 1000))),
    "cut": lambda draw: Damage("cut", least=draw.choice((1, 1000))),
    "stall": lambda draw: Damage("stall", draw.uniform(0.1, 1.5 * DEADLINE), draw.choice((1, 1000))),
    "crumble": lambda draw: Damage("crumble", draw.uniform(0.1, 1.0), 1000),
}


def drawn(faults: int, names: Sequence[str], updates: int, seed: int) -> list[Fault]:
    """So many faults, of all kinds in turn, at random parties and moments; several may meet."""
    draw = random.Random(seed)
    kinds = [list(KINDS)[i % len(KINDS)] for i in range(faults)]
    last = max(1, updates - 10)  # the training must not be over before they have happened
    found = []
    for kind in kinds:
        what = KINDS[kind](draw)
        whom = names[1:] if isinstance(what, Damage) else names  # nobody needs to connect to who leads
        found.append(Fault(draw.randrange(last), draw.choice(whom), what))
    return found


def run(faults: int, updates: int, *, seed: int, parties: int, say: Callable[[str], None]) -> Told:
    """Train in the middle of so many faults, then compare everything."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder), parties, updates)
        told = stage.play(drawn(faults, stage.names, updates, seed), say)
        if sum(told.faults.values()) != faults:
            told.problems.append(f"only {sum(told.faults.values())} of {faults} faults happened")
        return told


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parties", type=int, choices=(2, 3), default=2)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    told = run(
        asked.faults,
        asked.updates,
        seed=asked.seed,
        parties=asked.parties,
        say=lambda text: _write(sys.stderr, text),
    )
    if asked.json:
        _write(sys.stdout, json.dumps({**asdict(told), "replayed": told.replayed}, indent=2))
    else:
        _write(sys.stdout, str(told))
    return bool(told.problems)


def _write(stream: IO[str], text: str) -> None:
    stream.write(text + "\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
