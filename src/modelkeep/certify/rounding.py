"""Rounding: how far the computed margins can be from those of the exact network, whatever the order of the sums.

A sum of n products in floating point is off by at most γ = n u / (1 - n u) of the sum of their absolute values (Higham,
Accuracy and Stability of Numerical Algorithms, 3.1), in any order, with fused multiplication or without. From where
it is made, an error is carried on like a perturbation. So an error is at most a sum of sizes of values, each with a
weight that is known in advance, and of a constant: a `Form`. The bound holds for direct sums (`arithmetic` sees to
them), not for Winograd's way, and while nothing overflows (what does is infinite or NaN in the logits, which `Model`
refuses).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from pydantic import ConfigDict

from modelkeep.certify.arithmetic import require_plain_arithmetic
from modelkeep.certify.block_bounds import operation_norm
from modelkeep.certify.blocks import combine_gains
from modelkeep.certify.interpreter import Tensors, channel_scale, run
from modelkeep.certify.norms import absolute_norm, convolution_norms_1_inf, schur
from modelkeep.certify.operations import Operation
from modelkeep.certify.trace import tensors_of
from modelkeep.core.errors import ModelError, Remedy
from modelkeep.core.model import Model
from modelkeep.core.results import Tensor

# Roundings of one value: libraries promise a few units in the last place for tanh, erf and their like.
_FUNCTION = 16
_NORMALISATION = 10
_UNDERFLOW = 1e-30  # what underflows in float32 or bfloat16 is far below this, for any number of terms
_EXACT_FUNCTIONS = ("relu", "relu6", "abs")
_SOFTPLUS_STEP = 2.2e-10  # twice: torch's softplus is x above 20, where log(1 + exp(x)) is larger by 1.04e-10 of x


@dataclass(frozen=True)
class Rounding:
    """The error of the computed margins at an input, given the ℓ2 sizes s of the `values` there:

        apart · ⟨carried, s⟩ + lengths · ⟨made, s⟩ + constant,   (m, m)

    A size is at most its `gain` times ‖x‖₂ plus its size `at_zero`, and moves by at most its gain per unit.
    """

    values: tuple[str, ...]
    gains: Tensor
    at_zero: Tensor
    carried: Tensor
    made: Tensor
    apart: Tensor
    lengths: Tensor
    constant: Tensor
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    @property
    def slope(self) -> torch.Tensor:
        """What a unit of ‖x‖₂, or of an ℓ2 perturbation, adds to the error at most, `(m, m)`."""
        return self.weigh(self.gains[None])[0] - self.constant

    @property
    def offset(self) -> torch.Tensor:
        """The error at the input 0, `(m, m)`."""
        return self.weigh(self.at_zero[None])[0]

    def weigh(self, sizes: torch.Tensor) -> torch.Tensor:
        """The error `(n, m, m)` where the values have these `sizes: (n, values)`."""
        carried, made = (sizes @ weights for weights in (self.carried, self.made))
        error: torch.Tensor = self.apart * carried[:, None, None] + self.lengths * made[:, None, None] + self.constant
        return error * (1 + 1e-9)


@dataclass(frozen=True)
class Form:
    """At most the sum of the sizes of values, each times its weight, and of a constant."""

    weights: Mapping[str, float] = field(default_factory=dict)
    constant: float = 0.0

    def __add__(self, other: Form) -> Form:
        names = dict.fromkeys([*self.weights, *other.weights])
        weights = {name: self.weights.get(name, 0.0) + other.weights.get(name, 0.0) for name in names}
        return Form(weights, self.constant + other.constant)

    def __mul__(self, factor: float) -> Form:
        return Form({name: weight * factor for name, weight in self.weights.items()}, self.constant * factor)


def _unit_roundoff(model: Model) -> float:
    """Half the distance from 1 to the next number of the model's type."""
    require_plain_arithmetic(model.device)
    types = {tensor.dtype for tensor in tensors_of(model.module).values() if tensor.is_floating_point()}
    if torch.bfloat16 in types and model.device.type != "cpu":
        raise ModelError("How this device sums bfloat16 products is not known. Certify the network on the CPU.")
    if torch.float16 in types:
        raise ModelError(
            "A float16 network cannot be certified: what it computes may leave the range of the type, 6e-8 to 65504. "
            "Certify it in float32",
            remedy=Remedy("(model.module.float()).", "(convert its weights first)."),
        )
    return max(torch.finfo(dtype).eps for dtype in types | {model.dtype}) / 2


def margin_rounding(
    model: Model,
    operations: Sequence[Operation],
    tensors: Tensors,
    gains: Mapping[str, float],
    norms: Mapping[str, float] | None = None,
) -> Rounding:
    """The bound for the network as `model` computes it.

    `gains` are the ℓ2 bounds of those values that are known better than operation by operation; `norms` are the ℓ2
    norms of operations that are known already.
    """
    walk = _Walk(_unit_roundoff(model), tensors, gains, norms or {})
    shapes = {operation.name: operation.shape for operation in operations}
    last = operations[-1]
    margins = last.kind == "dense"
    for operation in operations[:-1] if margins else operations:
        walk.follow(operation, shapes)
    zero = run(operations, torch.zeros(1, *model.input_shape, dtype=torch.float64), tensors)
    classes = last.shape[0]
    different = 1 - torch.eye(classes, dtype=torch.float64)
    if margins:
        carried, made, apart, lengths, constant = walk.dense_margins(last)
    else:
        carried, made = walk.errors[last.name], Form()
        apart, lengths = math.sqrt(2) * (1 + 1e-12) * different, torch.zeros_like(different)
        constant = torch.zeros_like(different)
    values = tuple(name for name in walk.gains if name in {**carried.weights, **made.weights})

    def vector(weights: Mapping[str, float]) -> torch.Tensor:
        return torch.tensor([weights.get(name, 0.0) for name in values], dtype=torch.float64)

    constant = constant + apart * carried.constant + lengths * made.constant
    return Rounding(
        values=values,
        gains=vector(walk.gains),
        at_zero=vector({name: float(zero[name].norm()) * (1 + 1e-9) for name in values}),
        carried=vector(carried.weights),
        made=vector(made.weights),
        apart=apart,
        lengths=lengths * different,
        constant=constant * different,
    )


class _Walk:
    """The gains and errors of the values, one operation after another."""

    def __init__(self, unit: float, tensors: Tensors, known: Mapping[str, float], norms: Mapping[str, float]) -> None:
        self.unit, self.tensors, self.known, self.norms = unit, tensors, known, norms
        self.gains: dict[str, float] = {}
        self.errors: dict[str, Form] = {}

    def gamma(self, terms: int) -> float:
        """γ for `terms` roundings in a row."""
        if terms * self.unit > 0.25:
            raise ModelError(
                f"Sums of {terms} products cannot be bounded in so coarse a type: rounding alone could be larger than "
                "the result. Certify the model in float32",
                remedy=Remedy("(model.module.float()).", "(convert its weights first)."),
            )
        return terms * self.unit / (1 - terms * self.unit) * (1 + 1e-12)

    def follow(self, operation: Operation, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Add what the operation does."""
        name, given = operation.name, operation.inputs
        if not given:
            # The owner's input is float32: a network of a coarser type rounds it first.
            coarse = self.unit > torch.finfo(torch.float32).eps
            self.gains[name], self.errors[name] = 1.0, Form({name: self.gamma(1)} if coarse else {})
            return
        shape = shapes[given[0]]
        own = self.norms.get(name)
        if own is None:
            own = operation_norm(operation, shape, self.tensors, "l2")
        gains = [self.gains[n] for n in given]
        gain = combine_gains(operation, gains, "l2") if own is None else gains[0] * own
        self.gains[name] = min(gain, self.known.get(name, math.inf))
        if own is None:
            own = combine_gains(operation, [1.0], "l2") if len(given) == 1 else 1.0
        parts = operation.settings.get("coefficients", [1.0] * len(given))
        carried = sum((self.errors[n] * (own * abs(c)) for n, c in zip(given, parts, strict=True)), start=Form())
        underflow = Form(constant=_UNDERFLOW * math.prod(operation.shape))
        self.errors[name] = carried + self._own_error(operation, shape, own) + underflow

    def _size(self, name: str) -> Form:
        """The size of a value as it was computed."""
        return Form({name: 1.0}) + self.errors[name]

    def _own_error(self, operation: Operation, shape: tuple[int, ...], own: float) -> Form:
        """The error that the operation itself adds."""
        settings, size = operation.settings, self._size(operation.inputs[0])
        positions = math.sqrt(math.prod(operation.shape[1:]))
        match operation.kind:
            case "dense":
                weight = self._tensor(operation, "weight")
                rows = math.sqrt(math.prod(operation.shape[:-1]))
                added = size * absolute_norm(weight) + Form(constant=self._length(operation, "bias") * rows)
                return added * self.gamma(weight.shape[1] + 1)
            case "convolution":
                weight = self._tensor(operation, "weight")
                windows = settings["stride"], settings["padding"], settings["dilation"], settings["groups"]
                absolute = schur(*convolution_norms_1_inf(weight, *windows, shape))
                added = size * absolute + Form(constant=self._length(operation, "bias") * positions)
                return added * self.gamma(weight[0].numel() + 1)
            case "batch_norm" | "scale":
                factor, offset = channel_scale(operation, self.tensors, torch.zeros(1, *shape, dtype=torch.float64))
                mean = (
                    self._tensor(operation, "mean").reshape(factor.shape) if "mean" in operation.tensors else 0 * factor
                )
                # The mean times the factor and the bias may cancel in the offset: both count.
                parts = offset.abs() + 2 * (factor * mean).abs()
                length = float(parts.expand(operation.shape[0], *parts.shape[1:]).norm()) * positions
                return (size * own + Form(constant=length)) * self.gamma(_NORMALISATION)
            case "average_pool" | "mean":
                summed = math.prod(settings["kernel"] if "kernel" in settings else [shape[a] for a in settings["axes"]])
                return size * own * self.gamma(summed + 2)
            case "add":
                sizes = [
                    self._size(n) * abs(c) for n, c in zip(operation.inputs, settings["coefficients"], strict=True)
                ]
                return sum(sizes, start=Form()) * self.gamma(len(sizes) + 1)
            case "activation" if settings["function"] not in _EXACT_FUNCTIONS:
                return self._function(operation, size)
        return Form()

    def _function(self, operation: Operation, size: Form) -> Form:
        """The error of a function, value by value."""
        settings, slope, values = operation.settings, operation.slope, math.sqrt(math.prod(operation.shape))
        if settings["function"] == "hardtanh":  # its ends are rounded
            ends = sum(abs(settings[end]) for end in ("low", "high") if math.isfinite(settings[end]))
            return Form(constant=ends * values) * self.gamma(1)
        # No function is above 1 at 0, and elu subtracts numbers as large as alpha, of which 0 may be left.
        made = (size * slope + Form(constant=max(slope, 1.0) * values)) * self.gamma(_FUNCTION)
        return made + size * _SOFTPLUS_STEP if settings["function"] == "softplus" else made

    def dense_margins(self, last: Operation) -> tuple[Form, Form, torch.Tensor, torch.Tensor, torch.Tensor]:
        """The margins that a last dense layer makes: the errors that it is given, and those that it makes."""
        weight = self._tensor(last, "weight")
        lengths = weight.norm(dim=1) * (1 + 1e-9)
        apart = torch.cdist(weight, weight, compute_mode="donot_use_mm_for_euclid_dist") * (1 + 1e-9)
        bias = self._tensor(last, "bias").abs() if "bias" in last.tensors else torch.zeros_like(lengths)
        terms = self.gamma(weight.shape[1] + 1)
        made = self._size(last.inputs[0]) * terms
        return (
            self.errors[last.inputs[0]],
            made,
            apart,
            lengths[:, None] + lengths[None, :],
            terms * (bias[:, None] + bias[None, :]) + _UNDERFLOW,
        )

    def _tensor(self, operation: Operation, name: str) -> torch.Tensor:
        return self.tensors[operation.tensors[name]].double()

    def _length(self, operation: Operation, name: str) -> float:
        return float(self._tensor(operation, name).norm()) * (1 + 1e-9) if name in operation.tensors else 0.0
