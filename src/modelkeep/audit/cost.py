"""Cost: what a check takes, known before it runs, so that the audit of a large network ends.

A check declares its cost by a method `cost(model, data) -> Cost`. One without the method always runs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from modelkeep.audit.findings import Finding, Section
from modelkeep.certify.work import decompose_products
from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import OutOfTime
from modelkeep.core.model import Model

# An estimate may be wrong by this factor before the check is stopped: an interrupted check is lost time.
_PATIENCE = 2
_ROWS = 4  # examples in the timed pass
_SIDE = 128  # of the matrix whose decomposition is timed: as wide as the layers of a large network
_REPEATS = 3  # the fastest counts: another process may hold the machine for a moment


@dataclass(frozen=True)
class Cost:
    """What a check takes.

    `passes` are passes of single examples through the model; the gradient of one by its input counts as one more.
    `products` are products of float64 numbers besides. `instead` is a sentence with the command that runs it alone.
    """

    passes: float
    products: float = 0.0
    instead: str = ""


@runtime_checkable
class HasCost(Protocol):
    """A check that declares what it takes."""

    def cost(self, model: Model, data: Data) -> Cost:
        """What the check takes on this model and data."""
        ...


@dataclass(frozen=True)
class Pace:
    """How fast this machine is: seconds per pass of one example, and per product of float64 numbers."""

    per_pass: float
    per_product: float

    def seconds(self, cost: Cost) -> float:
        """About how long the check takes."""
        return cost.passes * self.per_pass + cost.products * self.per_product


def measure_pace(model: Model, data: Data) -> Pace:
    """Time a pass of a few examples, and the decomposition of a matrix.

    On a CPU the time of the processor counts, as if the machine had nothing else to do: a busy moment must not leave a
    check out. A model that only answers is asked once: its queries may be counted.
    """
    here = model.access == "weights" and model.device.type == "cpu"
    rows = data.rows(list(range(min(_ROWS, len(data)))))
    angles = torch.arange(_SIDE**2, dtype=torch.float64).view(_SIDE, _SIDE)
    matrix = torch.polar(torch.ones_like(angles), angles)
    products = 4 * decompose_products(_SIDE, _SIDE)  # four real products in a complex one
    return Pace(
        _fastest(
            lambda: model.predict(rows).cpu(),
            1 + _REPEATS if model.access == "weights" else 1,
            _processor_time if here else time.perf_counter,
        )
        / len(rows),
        _fastest(lambda: torch.linalg.eigvalsh(matrix.mH @ matrix), 1 + _REPEATS, _processor_time) / products,
    )


def _processor_time() -> float:
    """Seconds of the processor, shared by the threads that torch computes with."""
    return time.process_time() / torch.get_num_threads()


def _fastest(run: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    """The seconds of the fastest of a few runs; the first, which prepares things, is left out unless it is slow."""
    times = []
    for _ in range(repeats):
        began = clock()
        run()
        times.append(clock() - began)
        if sum(times) > 10:
            break
    return min(times[1:], default=times[0])


def run_within(
    name: str, check: Callable[..., Section], model: Model, data: Data, pace: Pace, *, minutes: float, seed: int
) -> Section:
    """The section of the check, or one that says how long it would take."""
    if not isinstance(check, HasCost):
        return check(model, data, seed=seed)
    cost = check.cost(model, data)
    seconds = pace.seconds(cost)
    if seconds > 60 * minutes:
        measured = (
            f"By an estimate before the start: {cost.passes:,.0f} passes of {pace.per_pass:.2g} s"
            + (f", and {cost.products * pace.per_product:.2g} s for the bounds" if cost.products else "")
            + f". The limit is {tell_minutes(60 * minutes)} per check."
        )
        return _not_run(name, f"would take about {tell_minutes(seconds)}", measured, seconds, cost)
    try:
        with progress.limit(_PATIENCE * 60 * minutes):
            return check(model, data, seed=seed)
    except OutOfTime as late:
        whole = max(late.whole, _PATIENCE * 60 * minutes)
        measured = f"The estimate was {tell_minutes(seconds)}. {late}"
        return _not_run(name, f"was stopped after {tell_minutes(_PATIENCE * 60 * minutes)}", measured, whole, cost)


def tell_minutes(seconds: float) -> str:
    """A time for a sentence.

    >>> tell_minutes(20), tell_minutes(100), tell_minutes(3 * 3600)
    ('1 minute', '2 minutes', '3 hours')
    """
    minutes = max(1, math.ceil(seconds / 60))
    if minutes >= 120:
        return f"{round(minutes / 60)} hours"
    return f"{minutes} minute{'s' * (minutes > 1)}"


def _not_run(name: str, why: str, measured: str, seconds: float, cost: Cost) -> Section:
    longer = f"`modelkeep audit … --minutes {math.ceil(1.2 * seconds / 60)}` (minutes=… in Python) runs it."
    finding = Finding(
        id=f"{name}.not-run",
        severity="unclear",
        title=f"Not run: the check of {name} {why}",
        measured=measured,
        meaning="Nothing is known about it, neither good nor bad.",
        remedy=f"{longer} {cost.instead}".strip(),
    )
    return Section(f"Not run: {name}", f"The check of {name} {why}. {measured}", findings=(finding,))
