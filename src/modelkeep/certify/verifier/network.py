"""The network that a certificate writes down: checked as it is read, run, and cut into its affine blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .arithmetic import ACTIVATIONS, ALIKE, FORWARD, TRANSPOSES, Array, ClaimedOperation


class Refused(Exception):
    """The certificate, the weights or the data cannot be used; the message says why."""


class Network:
    """All steps in the order of the run: the first is the input, the last gives the logits."""

    def __init__(self, operations: Sequence[Mapping[str, Any]], tensors: Mapping[str, Array]) -> None:
        self.steps: dict[str, ClaimedOperation] = {}
        for written in operations:
            step = ClaimedOperation(
                *(written["name"], written["kind"], tuple(written["inputs"]), tuple(written["shape"])),
                written["settings"],
                {role: tensors[key] for role, key in written["tensors"].items()},
            )
            function = step.settings.get("function", "relu")
            if step.kind not in (*FORWARD, "input") or function not in ACTIVATIONS:
                kind = step.kind if step.kind != "activation" else f"activation {function}"
                raise Refused(
                    f"The operation '{step.name}' is of the kind '{kind}', which this verifier does not know."
                )
            if step.name in self.steps or not set(step.inputs) <= set(self.steps):
                raise Refused(f"The operation '{step.name}' has another's name, or uses what comes later.")
            if (step.kind == "input") != (not self.steps) or (step.kind == "input") != (not step.inputs):
                raise Refused(f"The operation '{step.name}' is out of place: the input, and only it, stands first.")
            if step.kind in ALIKE and any(self.steps[name].shape != step.shape for name in step.inputs):
                raise Refused(f"The operation '{step.name}' ({step.kind}) has inputs of another shape than its own.")
            self.steps[step.name] = step
        if not self.steps:
            raise Refused("The certificate has no operations.")
        self.first, *_, self.last = self.steps if len(self.steps) > 1 else [*self.steps] * 2

    def values(self, x: Array, *, rounded: bool = False) -> dict[str, Array]:
        """The values of all steps for `x: (n, *input shape)`; the last are the logits, `(n, classes)`.

        With `rounded` each value is rounded to float32: less than any pass in float32 rounds.
        """
        values = {self.first: x.astype(np.float64)}
        for step in [*self.steps.values()][1:]:
            made = compute(step, [values[name] for name in step.inputs])
            values[step.name] = made.astype(np.float32).astype(np.float64) if rounded else made
        return values

    def logits(self, x: Array) -> Array:
        return self.values(x)[self.last]

    def sources(self) -> dict[str, str]:
        """For each step the one that it is an affine function of; itself, if it is not affine or joins several."""
        found: dict[str, str] = {}
        for step in self.steps.values():
            of = {found[name] for name in step.inputs}
            found[step.name] = of.pop() if step.affine and len(of) == 1 else step.name
        return found


class ClaimedBlock:
    """The linear part A of the map from the value of `start` to that of `end`, which is an affine function of it."""

    def __init__(self, network: Network, start: str, end: str) -> None:
        self.start, self.end = network.steps[start], network.steps[end]
        self.shapes = {name: step.shape for name, step in network.steps.items()}
        self.steps: list[ClaimedOperation] = []
        wanted = {end} - {start}
        for step in reversed(network.steps.values()):
            if step.name in wanted:
                wanted |= set(step.inputs) - {start}
                self.steps.insert(0, replace(step, constants=False))
        self.rows, self.columns = math.prod(self.end.shape), math.prod(self.start.shape)

    def apply(self, v: Array) -> Array:
        """A v, for each row of `v: (n, columns)`: (n, rows)."""
        values = {self.start.name: v.reshape(len(v), *self.start.shape)}
        for step in self.steps:
            values[step.name] = compute(step, [values[name] for name in step.inputs])
        return values[self.end.name].reshape(len(v), -1)

    def transpose(self, u: Array) -> Array:
        """Aᵀ u, for each row of `u: (n, rows)`: (n, columns)."""
        values: dict[str, Array] = {self.end.name: u.reshape(len(u), *self.end.shape)}
        for step in reversed(self.steps):
            back = TRANSPOSES[step.kind](step, values.pop(step.name), [self.shapes[name] for name in step.inputs])
            for name, part in zip(step.inputs, back, strict=True):
                values[name] = values[name] + part if name in values else part
        return values[self.start.name].reshape(len(u), -1)

    def units(self) -> Iterator[Array]:
        """The unit vectors of the shorter side, some at a time: of a large block the matrix itself has no room."""
        side = min(self.rows, self.columns)
        widest = max(self.columns, *(math.prod(step.shape) for step in self.steps))
        yield from np.array_split(np.eye(side), min(side, 1 + side * widest // 2**23))


def compute(step: ClaimedOperation, inputs: list[Array]) -> Array:
    """What the step makes of its inputs, of the shape that it says."""
    try:
        made = FORWARD[step.kind](step, inputs)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Refused(f"The operation '{step.name}' ({step.kind}) cannot be computed: {error!r}.") from error
    if made.shape != (len(inputs[0]), *step.shape):
        raise Refused(f"The operation '{step.name}' says its shape is {step.shape}, but it is {made.shape[1:]}.")
    return made
