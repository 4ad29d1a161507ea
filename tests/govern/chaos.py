"""Chaos for a governed training: parties are killed, paused, out of disk, and all that they send is lost, doubled,
delayed, damaged and cut, again and again, while they train one model.

In the end every party's weights must have the bits, and every ledger the entries, of a run that nothing disturbed.
`python tests/govern/chaos.py --faults 200` is the whole run; tests/govern/session/test_faults.py the short one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as each party has it: two threads add in another order

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))  # run as a program, it stands beside nothing

from govern.faulty_party import Order
from govern.networks import digit_model
from govern.parties import digits, found
from govern.play import Fault, Play, Signal, Told
from govern.proxy import Damage
from modelkeep.govern.folder import Folder
from modelkeep.govern.ledger.audit import audit
from modelkeep.govern.ledger.entry import Entry
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.piece.checkpoints import Checkpoints
from modelkeep.govern.wire.settings import Wire
from modelkeep.training import SGD, Recipe, cross_entropy, fit

ROWS = 96
DEADLINE = 2.0


class Stage:
    """Parties that can train the same model again and again, from the same start and under the same agreement.

    Of two parties the second has the labels, of three the first.
    """

    def __init__(self, root: Path, parties: int, updates: int, *, every: int = 5, deadline: float = DEADLINE) -> None:
        cuts, holders = (["2"], ["alice", "bob"]) if parties == 2 else (["1", "4"], ["alice", "bob", "carol"])
        recipe = Recipe(steps=updates, batch_size=16, optimizer=SGD(momentum=0.9), learning_rate=0.05, micro_batches=2)
        data = digits(ROWS)
        self.root, self.updates = root, updates
        self.agreement, _ = found(
            root / "start",
            digit_model(data),
            data,
            cuts=cuts,
            holders=holders,
            labels=holders[-1] if parties == 2 else holders[0],
            recipe=recipe,
            wire=Wire(deadline=deadline),
            checkpoint_every=every,
        )
        self.names = holders
        one = digit_model(data)
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
        entries = {name: [_content(e) for e in read_ledger(path).entries()] for name, path in ledgers.items()}
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
        told.recoveries = sum(event.kind == "recovering" for event in read_ledger(ledgers[self.names[0]]).events())


def _content(entry: Entry) -> str:
    """What an entry tells; each attempt has consents of its own, and the hashes differ with them."""
    return json.dumps([asdict(entry)[name] for name in ("of", "sent", "received", "metrics")])


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
