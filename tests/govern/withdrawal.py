"""Withdrawal: one party after another withdraws its consent in the middle of a training, on a busy machine.

Bob and Carol serve in processes of their own, Alice trains, other processes keep the machine busy, and a person (one
more process, as the command line is) withdraws at a random moment. From the time at which the withdrawal is on disk
until just before it is taken back, the party that withdrew must state no intent and prepare nothing. A pass that all
had prepared before may still be committed; these are counted beside.

`python tests/govern/withdrawal.py --tries 100` says what was seen; malice/test_withdrawal.py is a shorter run.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a program, it stands beside nothing

from govern.meeting import Meeting, meeting
from govern.parties import Host
from modelkeep.core.errors import ConsentRefused
from modelkeep.govern.consent import ConsentState
from modelkeep.govern.ledger.audit import audit
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.session.runs import train
from modelkeep.govern.session.status import Status
from modelkeep.training import SGD, Recipe

ENDLESS = Recipe(steps=10**6, batch_size=32, optimizer=SGD(momentum=0.9), learning_rate=0.01)


@dataclass
class Told:
    """What was seen: tries, passes, and what happened while consent was withdrawn."""

    tries: int = 0
    passes: int = 0
    begun_after: int = 0
    prepared_after: int = 0
    committed_after: int = 0
    broke_off: int = 0
    findings: int = 0
    latest: float = 0.0
    withdrawn: list[tuple[str, float, float]] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.tries} withdrawals during {self.passes:,} passes, {self.broke_off} of which broke off. After they "
            f"were on disk the party that withdrew began {self.begun_after} passes and prepared {self.prepared_after}. "
            f"Passes that all had prepared before and that were committed later: {self.committed_after}. The leader "
            f"knew after {self.latest:.2f} s at most. Findings of the audit: {self.findings}."
        )


class Person:
    """A process that withdraws and restores, as a person would with the command line."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--person"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def say(self, what: str, folder: Path) -> float:
        """When it was on disk."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what}\t{folder}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def be_person() -> None:
    """Withdraw and restore, as lines on stdin say; tell when each was done."""
    for line in sys.stdin:
        what, path = line.rstrip("\n").split("\t")
        state = ConsentState(Path(path))
        if what == "withdraw":
            state.withdraw("enough")
        else:
            state.restore()
        state.close()
        sys.stdout.write(f"{time.time()}\n")
        sys.stdout.flush()


def run(tries: int, *, seed: int, load: int, longest: float = 0.5) -> Told:
    """Withdraw so many times, at random moments, while `load` other processes compute."""
    told, draw = Told(tries), random.Random(seed)
    with tempfile.TemporaryDirectory() as root, ExitStack() as opened:
        opened.enter_context(_busy(load))
        hosts = {name: Host() for name in ("bob", "carol")}
        for host in hosts.values():
            opened.callback(host.close)
        split = meeting(
            Path(root),
            hosts,
            "govern.networks:digit_network",
            "pictures",
            ["2"],
            ["alice", "bob"],
            "carol",
            recipe=ENDLESS,
            checkpoint_every=5,
        )
        person = Person()
        opened.callback(person.close)
        with split.up(), split.alice(patience=60.0) as leader:
            for _ in range(tries):
                victim, delay = draw.choice(sorted(split.folders)), draw.uniform(0.0, longest)
                path, when = split.folders[victim].consent, list[float]()
                given = (person, leader.party.status, delay, path, when)
                thread = threading.Thread(target=_withdraw_later, args=given)
                thread.start()
                try:
                    train(leader)
                except ConsentRefused:
                    told.latest = max(told.latest, time.time() - when[0]) if when else told.latest
                thread.join()
                told.withdrawn.append((victim, when[0], time.time()))
                person.say("restore", path)
        _count(split, told)
    return told


def _withdraw_later(person: Person, status: Status, delay: float, path: Path, when: list[float]) -> None:
    """Let a person withdraw some time after the training has gone on."""
    done = status.passes["train"]
    while status.passes["train"] == done:
        time.sleep(0.001)
    time.sleep(delay)
    when.append(person.say("withdraw", path))


def _count(split: Meeting, told: Told) -> None:
    """Look into all accounts for what happened while consent was withdrawn."""
    accounts = {name: list(read_ledger(folder.ledger).events()) for name, folder in split.folders.items()}
    for victim, first, last in told.withdrawn:
        inside = [event.kind for event in accounts[victim] if first < event.time < last]
        told.begun_after += inside.count("intent")
        told.prepared_after += inside.count("prepared")
        told.committed_after += len(
            {
                event.values["number"]
                for events in accounts.values()
                for event in events
                if event.kind == "committed" and first < event.time < last
            }
        )
    told.passes = sum(event.kind == "committed" for event in accounts["alice"])
    told.broke_off = sum(event.kind == "given up" for event in accounts["alice"])
    told.findings = len(audit(split.agreement, {name: f.ledger for name, f in split.folders.items()}).findings)


@contextmanager
def _busy(load: int) -> Iterator[None]:
    """Processes that keep the machine busy."""
    spin = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(spin) for _ in range(load)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--load", type=int, default=2, help="How many other processes compute meanwhile.")
    parser.add_argument("--person", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.person:
        be_person()
        return 0
    os.environ["OMP_NUM_THREADS"] = "1"
    told = run(asked.tries, seed=asked.seed, load=asked.load)
    sys.stdout.write(f"{told}\n")
    return bool(told.begun_after + told.prepared_after + told.findings)


if __name__ == "__main__":
    sys.exit(main())
