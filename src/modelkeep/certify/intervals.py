"""Intervals: between which numbers each value lies while the input is moved (interval bound propagation).

In float64, and rounded outwards: an affine operation adds `_ROUNDING` of the absolute values that it sums, more than
10,000 products in a row are off by; a function adds `_FUNCTION` of its value.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from modelkeep.certify.interpreter import Tensors, run_operation, without_signs
from modelkeep.certify.operations import AFFINE, Operation

_ROUNDING = 1e-10
_FUNCTION = 1e-9  # also more than the step of torch's softplus at 20
_PIECEWISE_LINEAR = ("relu", "relu6", "hardtanh", "abs", "leaky_relu")
_MONOTONE = ("relu", "relu6", "hardtanh", "elu", "selu", "softplus", "tanh", "sigmoid", "softsign")


@dataclass(frozen=True)
class Interval:
    """The numbers from `low` to `high`, `(n, ...)` each."""

    low: torch.Tensor
    high: torch.Tensor

    @property
    def centre(self) -> torch.Tensor:
        return (self.low + self.high) / 2

    @property
    def reach(self) -> torch.Tensor:
        return (self.high - self.low) / 2

    def within(self, other: Interval) -> Interval:
        """What both allow."""
        return Interval(torch.maximum(self.low, other.low), torch.minimum(self.high, other.high))

    def widened(self, by: torch.Tensor | float) -> Interval:
        return Interval(self.low - by, self.high + by)


def is_monotone(operation: Operation) -> bool:
    """Whether an activation never falls."""
    function, settings = operation.settings["function"], operation.settings
    rising = function in _MONOTONE or (function == "leaky_relu" and settings["slope"] >= 0)
    return bool(rising and settings.get("alpha", 0.0) >= 0)


def propagate(operation: Operation, given: list[Interval], tensors: Tensors) -> Interval:
    """Between which numbers the values of the operation lie, where its inputs lie in the intervals `given`."""
    if operation.kind in AFFINE:
        return _affine(operation, given, tensors)
    (one,) = given
    low, high = (run_operation(operation, [end], tensors) for end in (one.low, one.high))
    if operation.kind in ("max_pool", "group_sort"):
        return Interval(low, high)  # both only choose among their values, and never fall where one rises
    assert operation.kind == "activation"
    if operation.settings["function"] == "abs":
        return Interval(torch.where((one.low <= 0) & (one.high >= 0), 0.0, torch.minimum(low, high)), low.maximum(high))
    if not is_monotone(operation):  # no further than its slope allows
        middle, reach = run_operation(operation, [one.centre], tensors), operation.slope * one.reach
        low, high = middle - reach, middle + reach
    exact = operation.settings["function"] in _PIECEWISE_LINEAR and is_monotone(operation)
    found = Interval(low, high)
    return found if exact else found.widened(_FUNCTION * (1 + low.abs() + high.abs()))


def _affine(operation: Operation, given: list[Interval], tensors: Tensors) -> Interval:
    centre = run_operation(operation, [one.centre for one in given], tensors)
    signed = [operation.tensors[role] for role in ("weight", "factor") if role in operation.tensors]
    absolute = {**tensors, **{key: tensors[key].abs() for key in signed}}
    reaches = [one.reach + _ROUNDING * (one.low.abs().maximum(one.high.abs())) for one in given]
    reach = run_operation(without_signs(operation), reaches, absolute, constants=False)
    return Interval(centre - reach, centre + reach).widened(_ROUNDING * centre.abs())
