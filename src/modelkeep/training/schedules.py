"""Schedules: how a learning rate, a radius or the weight of a loss changes while a model is trained."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import expm1, log1p
from typing import Annotated, Literal

import torch
from pydantic import Field

from modelkeep.core.errors import bad_parameter

Unit = Literal["step", "epoch"]


@dataclass(frozen=True, slots=True)
class Step:
    """Where a run is: `number` of `total` updates are done. What schedules and objectives are told.

    `index` says which examples of the data make up the batch. `generator` is seeded anew for every step: the only
    randomness that an objective may use, and the reason why a resumed run draws the same numbers.
    """

    number: int
    total: int
    per_epoch: int
    index: torch.Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    generator: torch.Generator = field(default_factory=torch.Generator)

    @property
    def epoch(self) -> int:
        """How many epochs are complete."""
        return self.number // self.per_epoch

    @property
    def progress(self) -> float:
        """The share of the run that is done, in [0, 1]."""
        return self.number / self.total

    def share(self, unit: Unit) -> float:
        """The progress, where it moves with every step or only with every epoch."""
        return self.progress if unit == "step" else self.epoch * self.per_epoch / self.total


@dataclass(frozen=True)
class Linear:
    """From `start` to `end` on a straight line that ends at the share `until` of the run (A.4's "x,y,e").

    >>> Linear(0.0, 2.0, until=0.5)(Step(25, 100, 10))
    1.0
    """

    start: float
    end: float
    until: float = 1.0
    unit: Unit = "step"
    kind: Literal["linear"] = "linear"

    def __post_init__(self) -> None:
        _check_until("Linear", self.until)

    def __call__(self, step: Step) -> float:
        return self.start + (self.end - self.start) * min(step.share(self.unit) / self.until, 1.0)


@dataclass(frozen=True)
class Logarithmic:
    """From `start` to `end`, fast at first and then slower (A.4's "log"): `exp` of the value moves on a line.

    >>> round(Logarithmic(0.0, 1.0)(Step(50, 100, 10)), 4)
    0.6201
    """

    start: float
    end: float
    until: float = 1.0
    unit: Unit = "step"
    kind: Literal["logarithmic"] = "logarithmic"

    def __post_init__(self) -> None:
        _check_until("Logarithmic", self.until)

    def __call__(self, step: Step) -> float:
        # log(exp(start) + (exp(end) - exp(start)) p), written so that small values keep their digits.
        done = min(step.share(self.unit) / self.until, 1.0)
        return self.start + log1p(expm1(self.end - self.start) * done)


@dataclass(frozen=True)
class StepDecay:
    """A table of `(from, value)`: each value holds from its step or epoch until the next.

    The model-splitting paper's table 1 is `StepDecay(((0, 5e-2), (60_000, 5e-3), (90_000, 5e-4), (105_000, 5e-5)))`.

    >>> StepDecay(((0, 0.1), (30, 0.01)))(Step(30, 100, 10))
    0.01
    """

    table: tuple[tuple[int, float], ...]
    unit: Unit = "step"
    kind: Literal["step"] = "step"

    def __post_init__(self) -> None:
        starts = [start for start, _ in self.table]
        if not starts or starts[0] != 0 or any(not a < b for a, b in pairwise(starts)):
            raise bad_parameter("StepDecay", "table", "pairs (from, value) that rise from 0", self.table)

    def __call__(self, step: Step) -> float:
        now = step.number if self.unit == "step" else step.epoch
        return next(value for start, value in reversed(self.table) if start <= now)


@dataclass(frozen=True)
class ExponentialAfterHalf:
    """`start` for half the run, then down (or up) to `end` by the same factor every step (A.4's "decay_to").

    >>> round(ExponentialAfterHalf(1e-2, 1e-4)(Step(75, 100, 10)), 6)
    0.001
    """

    start: float
    end: float
    unit: Unit = "step"
    kind: Literal["exponential after half"] = "exponential after half"

    def __post_init__(self) -> None:
        if not (self.start > 0 and self.end > 0):
            raise bad_parameter("ExponentialAfterHalf", "start, end", "numbers above 0", (self.start, self.end))

    def __call__(self, step: Step) -> float:
        done = max(0.0, 2 * step.share(self.unit) - 1)
        return float(self.start * (self.end / self.start) ** done)


Schedule = Annotated[Linear | Logarithmic | StepDecay | ExponentialAfterHalf, Field(discriminator="kind")]


def at(value: float | Schedule, step: Step) -> float:
    """The value of a schedule at a step; a plain number is the constant schedule."""
    return value(step) if callable(value) else value


def _check_until(name: str, until: float) -> None:
    if not 0 < until <= 1:
        raise bad_parameter(name, "until", "a share of the run, above 0 and at most 1", until)
