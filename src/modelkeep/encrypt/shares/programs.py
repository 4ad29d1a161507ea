"""Programs: inference and training as every role runs them, pass by pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

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

RunPass = Callable[[Callable[[Computation], Any]], Any]
"""Runs one pass at a role, and returns what the pass returns."""

MODEL_OWNER, DATA_OWNER = 0, 1
"""The places of the two who have secrets; the third party only computes."""


@dataclass(frozen=True)
class InferencePlan:
    """What every role knows of an inference: the layers and the sizes of the batches."""

    layers: tuple[Layer, ...]
    batches: tuple[int, ...]
    kind: Literal["inference"] = "inference"


@dataclass(frozen=True)
class TrainingPlan:
    """What every role knows of a training: the layers, the batch size, the steps and the rate 2^-halvings."""

    layers: tuple[Layer, ...]
    batch_size: int
    steps: int
    halvings: int
    kind: Literal["training"] = "training"


Plan = InferencePlan | TrainingPlan


@dataclass(frozen=True, eq=False)
class Secrets:
    """What a role brings: weights where it owns the model, inputs and targets where it owns the data, or nothing."""

    weights: Values | None = field(default=None, repr=False)
    x: Tensor | None = field(default=None, repr=False)
    y: Tensor | None = field(default=None, repr=False)


class Inference:
    """The passes of an inference at one role."""

    def __init__(self, plan: InferencePlan, secrets: Secrets) -> None:
        self.plan, self.secrets = plan, secrets
        self._weights: dict[Computation, tuple[list[Weights], tuple[Masked, ...]]] = {}

    def load(self, c: Computation) -> None:
        """Share the weights and mask them, once for all batches."""
        weights = share_weights(c, self.plan.layers, MODEL_OWNER, self.secrets.weights)
        self._weights[c] = weights, mask_weights(c, weights)

    def ask(self, c: Computation, number: int) -> Tensor | None:
        """The outputs of one batch at the owner of the data."""
        start, rows = sum(self.plan.batches[:number]), self.plan.batches[number]
        batch = None if self.secrets.x is None else self.secrets.x[start : start + rows]
        weights, masked = self._weights[c]
        (x,) = c.mask(c.share(DATA_OWNER, (rows, self.plan.layers[0].inputs), batch))
        return c.reveal(forward(c, self.plan.layers, weights, masked, x), to=DATA_OWNER)

    def run(self, run_pass: RunPass) -> list[Tensor | None]:
        """All passes; the outputs of each batch at the owner of the data, None elsewhere."""
        run_pass(self.load)
        return [run_pass(partial(self.ask, number=number)) for number in range(len(self.plan.batches))]


class Training:
    """The passes of a training at one role: one per step, in the order in which the data stand."""

    def __init__(self, plan: TrainingPlan, secrets: Secrets) -> None:
        self._plan, self._secrets = plan, secrets
        self._weights: dict[Computation, list[Weights]] = {}

    def load(self, c: Computation) -> None:
        """Share the weights."""
        self._weights[c] = share_weights(c, self._plan.layers, MODEL_OWNER, self._secrets.weights)

    def step(self, c: Computation, number: int) -> None:
        """One step on the next batch; after the last row comes the first one."""
        plan = self._plan
        x = self._share_rows(c, self._secrets.x, number, plan.layers[0].inputs)
        y = self._share_rows(c, self._secrets.y, number, plan.layers[-1].outputs)
        self._weights[c] = train_step(c, plan.layers, self._weights[c], x, y, plan.halvings)

    def unload(self, c: Computation) -> list[Tensor | None]:
        """The weights and biases in turn, at the owner of the model."""
        flat = [part for each in self._weights[c] for part in (each.weight, each.bias)]
        return [c.reveal(part, to=MODEL_OWNER) for part in flat]

    def run(self, run_pass: RunPass) -> list[Tensor | None]:
        """All passes; the weights and biases in turn at the owner of the model, None elsewhere."""
        run_pass(self.load)
        for number in range(self._plan.steps):
            run_pass(partial(self.step, number=number))
        found: list[Tensor | None] = run_pass(self.unload)
        return found

    def _share_rows(self, c: Computation, values: Tensor | None, number: int, width: int) -> Shared:
        batch = None
        if values is not None:
            at = torch.arange(number * self._plan.batch_size, (number + 1) * self._plan.batch_size) % len(values)
            batch = values[at]
        return c.share(DATA_OWNER, (self._plan.batch_size, width), batch)


def make_program(plan: Plan, secrets: Secrets) -> Inference | Training:
    """The passes of a plan at a role that brings these secrets."""
    return Inference(plan, secrets) if plan.kind == "inference" else Training(plan, secrets)
