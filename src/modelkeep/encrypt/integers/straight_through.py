"""Straight-through network: integers in the forward pass, the float network's gradients in the backward pass.

Rounding has no useful gradient, so it counts as the identity in the backward pass (Bengio2013). The one loop trains
this module with any objective, and `to_integers` reads the exact integer network out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from modelkeep.core.errors import ModelError, bad_parameter
from modelkeep.encrypt.integers.network import Encoder, IntegerLayer, IntegerNetwork
from modelkeep.encrypt.integers.ring import Ring
from modelkeep.encrypt.integers.table import Table


@dataclass(frozen=True)
class Bits:
    """How many bits the integers have. `modulus` is k of 2^k; None: the smallest that no input can overflow."""

    inputs: int = 4
    weights: int = 4
    activations: int = 4
    modulus: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("inputs", 1), ("weights", 2), ("activations", 1)):
            if not least <= getattr(self, name) <= 12:
                raise bad_parameter("Bits", name, f"from {least} to 12", getattr(self, name))
        if self.modulus is not None and not 2 <= self.modulus <= 32:
            raise bad_parameter("Bits", "modulus", "from 2 to 32", self.modulus)


# Activations by their module. The second entry is the largest value where there is one; else it is learned (Choi2018).
_ACTIVATIONS: dict[type[nn.Module], tuple[Callable[[torch.Tensor], torch.Tensor], float | None]] = {
    nn.ReLU: (torch.relu, None),
    nn.GELU: (functional.gelu, None),
    nn.SiLU: (functional.silu, None),
    nn.Sigmoid: (torch.sigmoid, 1.0),
    nn.Tanh: (torch.tanh, 1.0),
}


class _Dense(nn.Module):
    """A dense layer on integers, whose inputs stand for multiples of `step`; an activation and its rounding, if any."""

    top: torch.Tensor

    def __init__(self, linear: nn.Linear, activation: type[nn.Module] | None, bits: Bits) -> None:
        super().__init__()
        self.weight = nn.Parameter(linear.weight.detach().clone())
        bias = linear.bias if linear.bias is not None else torch.zeros(len(linear.weight))
        self.bias = nn.Parameter(bias.detach().clone())
        self.activation = activation
        self.most_weight = 2 ** (bits.weights - 1) - 1
        self.levels = 2**bits.activations - 1
        top = None if activation is None else _ACTIVATIONS[activation][1]
        if activation is not None and top is None:
            self.top = nn.Parameter(torch.tensor(1.0))
        else:
            self.register_buffer("top", torch.tensor(1.0 if top is None else top))

    def steps(self, step: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What one unit of the weights and one unit of the sums stand for."""
        weight_step = self.weight.detach().abs().max().clamp(min=1e-12) / self.most_weight
        return weight_step, weight_step * step

    def integers(self, step: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight and bias, rounded to integers and still float."""
        weight_step, sum_step = self.steps(step)
        return _round(self.weight / weight_step), _round(self.bias / sum_step)

    def activate(self, sums: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        """The integers that the activation gives for integer sums."""
        assert self.activation is not None
        values: torch.Tensor = _ACTIVATIONS[self.activation][0](sums * self.steps(step)[1])
        # The clamp passes the gradient of what is above the top on to the top.
        return _round(torch.minimum(values, self.top) / self.out_step())

    def out_step(self) -> torch.Tensor:
        """What one unit of the answers stands for."""
        step: torch.Tensor = self.top.clamp(min=1e-6) / self.levels
        return step

    def forward(self, integers: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        weight, bias = self.integers(step)
        return functional.linear(integers, weight, bias)


class StraightThrough(nn.Module):
    """A dense network whose forward pass is that of the integer network, up to the scale of its logits.

    `low` and `high` are the range of each feature; the steps of the inputs are folded into the first layer's weights.
    """

    low: torch.Tensor
    step: torch.Tensor

    def __init__(self, network: nn.Module, low: torch.Tensor, high: torch.Tensor, bits: Bits) -> None:
        super().__init__()
        self.bits = bits
        self.levels = 2**bits.inputs - 1
        self.register_buffer("low", low.clone())
        self.register_buffer("step", ((high - low) / self.levels).clamp(min=1e-12))
        self.layers = nn.ModuleList(_Dense(linear, kind, bits) for linear, kind in _chain(network))
        first = self._dense()[0]
        with torch.no_grad():  # W x + b = (W diag(step)) q + (b + W low)
            first.bias.add_(first.weight @ self.low)
            first.weight.mul_(self.step)

    def calibrate(self, x: torch.Tensor) -> None:
        """Set the tops that are learned to what the float network reaches on the inputs `x`."""
        with torch.no_grad():
            integers, step = self._encoded(x), torch.ones(())
            for layer in self._dense()[:-1]:
                assert layer.activation is not None
                sums = layer(integers, step) * layer.steps(step)[1]
                if isinstance(layer.top, nn.Parameter):
                    # The largest value of 99.9 % of the activations: a single outlier would cost all others their bits.
                    values = _ACTIVATIONS[layer.activation][0](sums).flatten()[:1_000_000]
                    layer.top.fill_(max(1e-3, float(values.quantile(0.999))))
                integers, step = layer.activate(layer(integers, step), step), layer.out_step()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The logits `(n, classes)` of inputs `(n, ...)`."""
        integers, step = self._encoded(x), torch.ones((), dtype=x.dtype)
        *hidden, last = self._dense()
        for layer in hidden:
            integers, step = layer.activate(layer(integers, step), step), layer.out_step()
        logits: torch.Tensor = last(integers, step) * last.steps(step)[1]
        return logits

    def to_integers(self) -> IntegerNetwork:
        """The integer network that this module computes with."""
        encoder = Encoder(self.low.detach().clone(), self.step.detach().clone(), self.levels)
        with torch.no_grad():
            steps = [torch.ones(())]
            for layer in self._dense()[:-1]:
                steps.append(layer.out_step())
            parts = [
                tuple(each.round().long() for each in layer.integers(step))
                for layer, step in zip(self._dense(), steps, strict=True)
            ]
            ring = Ring(self.bits.modulus) if self.bits.modulus is not None else self._safe_ring(parts, steps)
            layers = []
            for layer, step, (weight, bias) in zip(self._dense(), steps, parts, strict=True):
                table = None if layer.activation is None else Table.of(_on_integers(layer, step), ring.bits)
                layers.append(IntegerLayer(weight, bias, table))
        return IntegerNetwork(encoder, tuple(layers), ring)

    def _safe_ring(self, parts: list[tuple[torch.Tensor, ...]], steps: list[torch.Tensor]) -> Ring:
        """The smallest ring that no sum of any layer leaves, whatever the input."""
        bits, least, most = 2, 0, self.levels
        for layer, step, (weight, bias) in zip(self._dense(), steps, parts, strict=True):
            low, high = IntegerLayer(weight, bias).reach(least, most)
            bits = max(bits, Ring.holding(low, high).bits)
            if layer.activation is not None:
                answers = _on_integers(layer, step)(torch.arange(low, high + 1))
                least, most = int(answers.min()), int(answers.max())
        return Ring(bits)

    def _encoded(self, x: torch.Tensor) -> torch.Tensor:
        return _round(((x.flatten(1) - self.low) / self.step).clamp(0, self.levels))

    def _dense(self) -> list[_Dense]:
        return [layer for layer in self.layers if isinstance(layer, _Dense)]


def _round(values: torch.Tensor) -> torch.Tensor:
    """Rounding whose gradient is one. It is exact: `values + (rounded - values)` would not be."""
    return _Rounding.apply(values)  # type: ignore[no-any-return, no-untyped-call]


class _Rounding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, values: torch.Tensor) -> torch.Tensor:
        return values.round()

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def _on_integers(layer: _Dense, step: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda sums: layer.activate(sums.to(layer.weight.dtype), step).round().long()


def _chain(network: nn.Module) -> list[tuple[nn.Linear, type[nn.Module] | None]]:
    """The dense layers of a network, each with the activation behind it; the last one has none."""
    every = network.named_modules(remove_duplicate=False)  # one ReLU may stand at several places
    leaves = [(name, part) for name, part in every if not any(part.children())]
    if not isinstance(network, nn.Sequential | nn.Linear):
        raise ModelError(f"An integer network is made of an nn.Sequential. Got {type(network).__name__}.")
    found: list[tuple[nn.Linear, type[nn.Module] | None]] = []
    for name, part in leaves:
        if isinstance(part, nn.Linear) and (not found or found[-1][1] is not None):
            found.append((part, None))
        elif type(part) in _ACTIVATIONS and found and found[-1][1] is None:
            found[-1] = (found[-1][0], type(part))
        elif not isinstance(part, nn.Identity | nn.Dropout) and not (isinstance(part, nn.Flatten) and not found):
            allowed = ", ".join(kind.__name__ for kind in _ACTIVATIONS)
            raise ModelError(
                f"The layer '{name}' ({type(part).__name__}) has no integer form at its place. A network may be "
                f"Flatten, then Linear layers with one of {allowed} between them."
            )
    if not found or found[-1][1] is not None:
        raise ModelError("An integer network ends with a Linear layer, whose sums are the scores.")
    return found
