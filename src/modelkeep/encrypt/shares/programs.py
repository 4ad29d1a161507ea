"""Programs: inference and training as every role runs them, pass by pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from modelkeep.encrypt.shares.computation import Computation, Masked, Shared
from modelkeep.encrypt.shares.network import (
    Layer,
    Weights,
    forward,
    mask_weights,
    share_weights,
    train_step,
)
from modelkeep.encrypt.shares.reading import Values

T = TypeVar("T")
RunPass = Callable[[Callable[[Computation], T]], T]
MODEL_OWNER, DATA_OWNER = 0, 1
"""The places of the two who have secrets; the third party only computes."""


@dataclass(frozen=True)
class InferencePlan:
    """What every role knows of an inference: the layers and the sizes of the batches."""

    layers: tuple[Layer, ...]
    batches: tuple[int, ...]


@dataclass(frozen=True)
class TrainingPlan:
    """What every role knows of a training: the layers, the batch size, the steps and the rate 2^-halvings."""

    layers: tuple[Layer, ...]
    batch_size: int
    steps: int
    halvings: int


Plan = InferencePlan | TrainingPlan


@dataclass
class Inference:
    """The passes of an inference at one role. Who owns nothing leaves `values` and `x` away."""

    plan: InferencePlan
    values: Values | None = field(default=None, repr=False)
    x: Tensor | None = field(default=None, repr=False)
    _weights: dict[Computation, tuple[list[Weights], tuple[Masked, ...]]] = field(default_factory=dict, repr=False)

    def load(self, c: Computation) -> None:
        """Share the weights and mask them, once for all batches."""
        weights = share_weights(c, self.plan.layers, MODEL_OWNER, self.values)
        self._weights[c] = weights, mask_weights(c, weights)

    def ask(self, c: Computation, number: int) -> Tensor | None:
        """The outputs of one batch at the owner of the data."""
        start = sum(self.plan.batches[:number])
        rows = self.plan.batches[number]
        batch = None if self.x is None else self.x[start : start + rows]
        weights, masked = self._weights[c]
        (x,) = c.mask(c.share(DATA_OWNER, (rows, self.plan.layers[0].inputs), batch))
        return c.reveal(forward(c, self.plan.layers, weights, masked, x), to=DATA_OWNER)

    def run(self, run_pass: RunPass[Any]) -> Tensor | None:
        """All passes; the outputs at the owner of the data."""
        run_pass(self.load)
        outputs = [run_pass(partial(self.ask, number=number)) for number in range(len(self.plan.batches))]
        return None if outputs[0] is None else torch.cat(outputs)


@dataclass
class Training:
    """The passes of a training at one role: one per step, in the order in which the data stand."""

    plan: TrainingPlan
    values: Values | None = field(default=None, repr=False)
    x: Tensor | None = field(default=None, repr=False)
    y: Tensor | None = field(default=None, repr=False)
    _weights: dict[Computation, list[Weights]] = field(default_factory=dict, repr=False)

    def load(self, c: Computation) -> None:
        """Share the weights."""
        self._weights[c] = share_weights(c, self.plan.layers, MODEL_OWNER, self.values)

    def step(self, c: Computation, number: int) -> None:
        """One step on the next batch; after the last row comes the first one."""
        plan = self.plan
        x = self._share_rows(c, self.x, number, plan.layers[0].inputs)
        y = self._share_rows(c, self.y, number, plan.layers[-1].outputs)
        self._weights[c] = train_step(c, plan.layers, self._weights[c], x, y, plan.halvings)

    def unload(self, c: Computation) -> list[Tensor | None]:
        """The weights at the owner of the model, in one flat list."""
        flat = [part for each in self._weights[c] for part in (each.weight, each.bias)]
        return [c.reveal(part, to=MODEL_OWNER) for part in flat]

    def run(self, run_pass: RunPass[Any], report: Callable[[], object] = lambda: None) -> list[Tensor | None]:
        """All passes."""
        run_pass(self.load)
        for number in range(self.plan.steps):
            run_pass(partial(self.step, number=number))
            report()
        found: list[Tensor | None] = run_pass(self.unload)
        return found

    def _share_rows(self, c: Computation, values: Tensor | None, number: int, width: int) -> Shared:
        batch = None
        if values is not None:
            at = torch.arange(number * self.plan.batch_size, (number + 1) * self.plan.batch_size) % len(values)
            batch = values[at]
        return c.share(DATA_OWNER, (self.plan.batch_size, width), batch)
