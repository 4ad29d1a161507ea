"""Cost: what a check takes, known before it runs, so that the audit of a large network ends.

A check declares its cost by a method `cost(model, data) -> Cost`. One without the method is taken to cost nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from modelkeep.certify.work import decompose_products
from modelkeep.core.data import Data
from modelkeep.core.model import Model

_ROWS = 4  # examples in the timed pass
_MANY_ROWS, _SHORT = 128, 0.1  # and in that of a network whose pass takes fewer seconds than this
_LEAST = 0.5  # seconds: a check draws pictures, however small the network is
_SIDE = 128  # of the matrix whose decomposition is timed: as wide as the layers of a large network
_REPEATS = 3  # the fastest counts: another process may hold the machine for a moment


@dataclass(frozen=True)
class Cost:
    """What a check takes.

    `passes` are passes of single examples through the model; the gradient of one by its input counts as one more.
    `products` are products of float64 numbers besides, and `seconds` what else it takes. `instead` is a sentence with
    the command that runs it alone.
    """

    passes: float
    products: float = 0.0
    instead: str = ""
    seconds: float = 0.0


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
        return _LEAST + cost.passes * self.per_pass + cost.products * self.per_product + cost.seconds


def measure_pace(model: Model, data: Data) -> Pace:
    """Time a pass of a few examples, and the decomposition of a matrix.

    On a CPU the time of the processor counts, as if the machine had nothing else to do: a busy moment must not leave a
    check out. A model that only answers is asked once: its queries may be counted.
    """
    clock = _processor_time if model.access == "weights" and model.device.type == "cpu" else time.perf_counter
    angles = torch.arange(_SIDE**2, dtype=torch.float64).view(_SIDE, _SIDE)
    matrix = torch.polar(torch.ones_like(angles), angles)
    products = 4 * decompose_products(_SIDE, _SIDE)  # four real products in a complex one
    per_pass = _time_pass(model, data, _ROWS, clock)
    if model.access == "weights" and per_pass * _ROWS < _SHORT:
        # Of a small network the call costs more than the numbers. Checks run large and small batches: between the two.
        per_pass = math.sqrt(per_pass * _time_pass(model, data, _MANY_ROWS, clock))
    return Pace(
        per_pass,
        _fastest(lambda: torch.linalg.eigvalsh(matrix.mH @ matrix), 1 + _REPEATS, _processor_time) / products,
    )


def _time_pass(model: Model, data: Data, count: int, clock: Callable[[], float]) -> float:
    """Seconds per example of a pass of so many."""
    rows = data.rows(list(range(min(count, len(data)))))
    repeats = 1 + _REPEATS if model.access == "weights" else 1
    return _fastest(lambda: model.predict(rows).cpu(), repeats, clock) / len(rows)


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


def tell_minutes(seconds: float) -> str:
    """A time for a sentence.

    >>> tell_minutes(20), tell_minutes(100), tell_minutes(3 * 3600)
    ('1 minute', '2 minutes', '3 hours')
    """
    minutes = max(1, math.ceil(seconds / 60))
    if minutes >= 120:
        return f"{round(minutes / 60)} hours"
    return f"{minutes} minute{'s' * (minutes > 1)}"
