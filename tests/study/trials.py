"""Trial functions for the tests, importable by worker processes: quick, deterministic, or broken on purpose."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from modelkeep import Data, Estimate, Model, Result
from modelkeep.core import progress
from modelkeep.core.results import measured
from modelkeep.study import workdir
from modelkeep.training import Recipe, Step, cross_entropy, fit


@dataclass(frozen=True, kw_only=True, eq=False)
class Accuracy(Result):
    accuracy: Estimate


def returns_result(*, seed: int, x: int) -> Accuracy:
    with measured(seed) as provenance:
        return Accuracy(accuracy=Estimate.rate(x, 10), provenance=provenance())


def square(*, seed: int, x: int, wait: float = 0.0) -> dict[str, float]:
    time.sleep(wait)
    return {"square": x * x, "seed": seed}


def tells(*, seed: int, x: int) -> int:
    """Says how far it is, and also how far a part of it is, which is nobody's concern."""
    with progress.task("counting", total=2_000) as counting:
        counting.advance(1_000 + x, note="half-way")
        with progress.task("a part", total=7) as part:
            time.sleep(0.7)
            part.advance()
    return x


def logged(*, seed: int, x: int, log: str, wait: float = 0.05) -> int:
    """Like `square`, and leaves one line per execution in a file."""
    with open(log, "a") as file:
        file.write(f"{x} {os.getpid()}\n")
    time.sleep(wait)
    return x * x


def noise(*, seed: int, x: int) -> list[float]:
    """Draws from every global random state, and from the order of a set."""
    order = "".join({f"text {i}" for i in range(20)})
    return [random.random(), float(np.random.rand()), float(torch.rand(())), float(sum(map(ord, order[:50])))]


def fails(*, seed: int, x: int) -> None:
    raise ValueError(f"cannot do {x}")


def leaves(*, seed: int, x: int) -> None:
    sys.exit("left early")


def returns_nan(*, seed: int, x: int) -> dict[str, list[float]]:
    return {"losses": [0.0, float("nan")]}


def returns_object(*, seed: int, x: int) -> object:
    return object()


def dies(*, seed: int, how: str) -> None:
    sys.stdout.write("last words\n")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        os._exit(3)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "orphan":  # leaves a child that holds every inherited handle open
        subprocess.Popen(["sleep", "60"], close_fds=False)
        os._exit(4)


def dies_once(*, seed: int, x: int) -> int:
    """Crashes at the first attempt; the second finds what the first left in the working directory."""
    mark = workdir() / "mark"
    if not mark.exists():
        mark.write_text("checkpoint")
        os._exit(1)
    return x


def trains(*, seed: int, kill_at: int) -> dict[str, Any]:
    """A training of 12 steps whose process is killed before step `kill_at`, the first time that it gets there."""
    seen = workdir() / "seen"

    def objective(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        first = not seen.exists() or str(kill_at) not in seen.read_text().split()
        with seen.open("a") as file:
            file.write(f"{step.number} ")
        if step.number == kill_at and first:
            os.kill(os.getpid(), signal.SIGKILL)
        return cross_entropy(model, x, y, step)

    data = Data(torch.eye(12), torch.arange(12) % 2, ("even", "odd"))
    model = Model(torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(12, 2)), input_shape=(12,), classes=2)
    recipe = Recipe(steps=12, batch_size=4)
    fitted = fit(model, data, objective, recipe, seed=seed, checkpoint=workdir() / "run", checkpoint_seconds=0)
    return {"model": model.fingerprint(), "loss": fitted.history[-1].train_loss, "steps": seen.read_text().split()}


def hangs(*, seed: int, x: int, mark: str = "") -> None:
    if mark:
        Path(mark).write_text(str(os.getpid()))
    while True:
        time.sleep(0.01)


def eats(*, seed: int, megabytes: int) -> int:
    eaten = np.ones(megabytes * 1_000_000 // 8)
    time.sleep(1.0)
    return int(eaten[0])


def worker_state(*, seed: int, x: int) -> dict[str, int]:
    return {"pid": os.getpid(), "threads": torch.get_num_threads()}
