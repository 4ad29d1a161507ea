"""Rounding: how far the computed logits can be from those of the exact network, whatever the order of the sums.

A sum of n products in floating point is off by at most γ = n u / (1 - n u) of the sum of their absolute values (Higham,
Accuracy and Stability of Numerical Algorithms, 3.1), in any order, with fused multiplication or without. From there
the errors are carried through the network like perturbations. All sizes are ℓ2 and grow with the input's: each is a
`Line`, a slope times ‖x‖₂ and an offset. The bound holds for direct sums, not for Winograd's or Fourier's ways.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from modelkeep.certify.blocks import combined
from modelkeep.certify.bounding import operation_norm
from modelkeep.certify.norms import absolute_norm, convolution_norms_1_inf, schur
from modelkeep.certify.operations import Operation
from modelkeep.certify.running import Tensors, channel_scale, run
from modelkeep.errors import ModelError
from modelkeep.model import Model

# Roundings of one value: libraries promise a few units in the last place for tanh, erf and their like.
_FUNCTION = 16
_NORMALISATION = 10
_EXACT_FUNCTIONS = ("relu", "relu6", "abs", "hardtanh")


@dataclass(frozen=True)
class Line:
    """At most `slope` · ‖x‖₂ + `offset`."""

    slope: float = 0.0
    offset: float = 0.0

    def __add__(self, other: Line) -> Line:
        return Line(self.slope + other.slope, self.offset + other.offset)

    def __mul__(self, factor: float) -> Line:
        return Line(self.slope * factor, self.offset * factor)


def unit_roundoff(model: Model) -> float:
    """Half the distance from 1 to the next number of the model's type; refused where torch may round more coarsely."""
    if torch.get_float32_matmul_precision() != "highest":
        raise ModelError(
            "torch may round float32 products to fewer digits than float32 has (TF32, bfloat16): no bound covers that. "
            'Call torch.set_float32_matmul_precision("highest") first.'
        )
    if model.device.type == "cuda" and torch.backends.cudnn.allow_tf32:
        raise ModelError("Convolutions on this device may use TF32. Set torch.backends.cudnn.allow_tf32 = False first.")
    return torch.finfo(model.dtype).eps / 2


def margin_rounding(
    model: Model, operations: tuple[Operation, ...], tensors: Tensors, gains: Mapping[str, float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Slope and offset `(m, m)`: each computed margin is within slope · ‖x‖₂ + offset of the exact one.

    `gains` are the ℓ2 bounds of those values that are known better than operation by operation.
    """
    walk = _Walk(unit_roundoff(model), tensors, gains)
    at_zero = run(operations, torch.zeros(1, *model.input_shape, dtype=torch.float64), tensors)
    shapes = {operation.name: operation.shape for operation in operations}
    for operation in operations[:-1]:
        walk.follow(operation, shapes, float(at_zero[operation.name].norm()))
    last = operations[-1]
    if last.kind == "dense":
        return walk.dense_margins(last)
    walk.follow(last, shapes, 0.0)
    both = math.sqrt(2) * (1 + 1e-12)
    m = last.shape[0]
    apart = 1 - torch.eye(m, dtype=torch.float64)
    error = walk.errors[last.name]
    return apart * error.slope * both, apart * error.offset * both


class _Walk:
    """Sizes and errors of the values, one operation after another."""

    def __init__(self, unit: float, tensors: Tensors, gains: Mapping[str, float]) -> None:
        self.unit, self.tensors, self.known = unit, tensors, gains
        self.gains: dict[str, float] = {}
        self.sizes: dict[str, Line] = {}
        self.errors: dict[str, Line] = {}

    def gamma(self, terms: int) -> float:
        """γ for so many roundings in a row."""
        if terms * self.unit > 0.25:
            raise ModelError(
                f"Sums of {terms} products cannot be bounded in so coarse a type: rounding alone could be larger than "
                "the result. Certify the model in float32 (model.module.float())."
            )
        return terms * self.unit / (1 - terms * self.unit) * (1 + 1e-12)

    def follow(self, operation: Operation, shapes: Mapping[str, tuple[int, ...]], at_zero: float) -> None:
        """Add what the operation does; `at_zero` is the size of its value for the input 0."""
        name, given = operation.name, operation.inputs
        if not given:
            self.gains[name], self.sizes[name], self.errors[name] = 1.0, Line(1.0), Line()
            return
        shape = shapes[given[0]]
        own = operation_norm(operation, shape, self.tensors, "l2")
        gain = combined(operation, [self.gains[n] for n in given], "l2") if own is None else self.gains[given[0]] * own
        self.gains[name] = min(gain, self.known.get(name, math.inf))
        self.sizes[name] = Line(self.gains[name], at_zero * (1 + 1e-9))
        # ‖a + b‖ ≤ ‖a‖ + ‖b‖ for slopes and offsets alike, so that a line may be combined part by part.
        errors = [self.errors[n] for n in given]
        carried = Line(
            combined(operation, [e.slope for e in errors], "l2") if own is None else errors[0].slope * own,
            combined(operation, [e.offset for e in errors], "l2") if own is None else errors[0].offset * own,
        )
        # What underflows is far below this, for any number of terms.
        underflow = Line(0.0, 1e-30 * math.prod(operation.shape))
        self.errors[name] = carried + self._made(operation, shape, own) + underflow

    def _computed(self, name: str) -> Line:
        """The size of a value as it was computed."""
        return self.sizes[name] + self.errors[name]

    def _made(self, operation: Operation, shape: tuple[int, ...], own: float | None) -> Line:
        """The error that the operation itself adds."""
        settings, size = operation.settings, self._computed(operation.inputs[0])
        positions = math.sqrt(math.prod(operation.shape[1:]))
        match operation.kind:
            case "dense":
                weight = self._tensor(operation, "weight")
                assert weight is not None
                rows = math.sqrt(math.prod(operation.shape[:-1]))
                terms = self.gamma(weight.shape[1] + 1)
                return (size * absolute_norm(weight) + Line(0.0, self._length(operation, "bias") * rows)) * terms
            case "convolution":
                weight = self._tensor(operation, "weight")
                assert weight is not None
                windows = settings["stride"], settings["padding"], settings["dilation"], settings["groups"]
                absolute = schur(*convolution_norms_1_inf(weight, *windows, shape))
                terms = self.gamma(weight[0].numel() + 1)
                return (size * absolute + Line(0.0, self._length(operation, "bias") * positions)) * terms
            case "batch_norm" | "scale":
                assert own is not None
                factor, offset = channel_scale(operation, self.tensors, torch.zeros(1, *shape, dtype=torch.float64))
                # mean · factor and bias may cancel in the offset: both count.
                parts = offset.abs() + 2 * (factor * self._mean(operation, factor)).abs()
                length = float(parts.expand(operation.shape[0], *parts.shape[1:]).norm()) * positions
                return (size * own + Line(0.0, length)) * self.gamma(_NORMALISATION)
            case "average_pool" | "mean":
                assert own is not None
                summed = math.prod(settings["kernel"] if "kernel" in settings else [shape[a] for a in settings["axes"]])
                return size * own * self.gamma(summed + 2)
            case "add":
                sizes = [
                    self._computed(n) * abs(c) for n, c in zip(operation.inputs, settings["coefficients"], strict=True)
                ]
                return sum(sizes, start=Line()) * self.gamma(len(sizes) + 1)
            case "activation" if settings["function"] not in _EXACT_FUNCTIONS:
                largest = math.sqrt(math.prod(operation.shape))  # no function here is above 1 at 0
                return (size * operation.slope + Line(0.0, largest)) * self.gamma(_FUNCTION)
        return Line()

    def dense_margins(self, last: Operation) -> tuple[torch.Tensor, torch.Tensor]:
        """The errors of the margins that a last dense layer makes: what it is given wrongly, and what it adds."""
        (given,) = last.inputs
        weight = self._tensor(last, "weight")
        assert weight is not None
        bias = self._tensor(last, "bias")
        lengths = weight.norm(dim=1) * (1 + 1e-9)
        apart = torch.cdist(weight, weight, compute_mode="donot_use_mm_for_euclid_dist") * (1 + 1e-9)
        terms, size, error = self.gamma(weight.shape[1] + 1), self._computed(given), self.errors[given]
        slope, offset = lengths * size.slope, lengths * size.offset + (0.0 if bias is None else bias.abs())
        made = [terms * (line[:, None] + line[None, :]) for line in (slope, offset)]
        apart_only = 1 - torch.eye(len(weight), dtype=torch.float64)
        return (apart * error.slope + made[0]) * apart_only, (apart * error.offset + made[1]) * apart_only

    def _tensor(self, operation: Operation, name: str) -> torch.Tensor | None:
        key = operation.tensors.get(name)
        return None if key is None else self.tensors[key].double()

    def _length(self, operation: Operation, name: str) -> float:
        tensor = self._tensor(operation, name)
        return 0.0 if tensor is None else float(tensor.norm()) * (1 + 1e-9)

    def _mean(self, operation: Operation, factor: torch.Tensor) -> torch.Tensor:
        mean = self._tensor(operation, "mean")
        return torch.zeros_like(factor) if mean is None else mean.reshape(factor.shape)
