"""Blocks: the affine stretches of a network. Each is bounded as a whole, and their bounds compose along the graph.

What stands between two non-linear operations is one affine map, however many operations it has: a convolution with
its batch norm, `x + conv(x)`, pooling followed by a dense layer. Its norm is often far below the product of norms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch

from modelkeep.certify.interpreter import Tensors, run
from modelkeep.certify.norms import pool_gain
from modelkeep.certify.operations import AFFINE, Operation
from modelkeep.core.norms import Norm

Gain = TypeVar("Gain", float, torch.Tensor)


@dataclass(frozen=True)
class AffineBlock:
    """The affine map from the value `source` to the value of its last operation."""

    source: str
    shape: tuple[int, ...]
    operations: tuple[Operation, ...]

    @property
    def name(self) -> str:
        """The name of the value that it makes."""
        return self.operations[-1].name

    @property
    def inputs(self) -> int:
        """How many numbers go in."""
        return math.prod(self.shape)

    @property
    def outputs(self) -> int:
        """How many numbers come out."""
        return math.prod(self.operations[-1].shape)

    @property
    def is_one_layer(self) -> bool:
        """Whether its norm is that of its last operation, as all others keep lengths."""
        kinds = [operation.kind for operation in self.operations]
        return kinds[-1] in ("dense", "convolution") and set(kinds[:-1]) <= {"reshape", "permute", "downsample"}

    def __str__(self) -> str:
        """The names of what it consists of, but for what only moves values about."""
        moving = ("reshape", "permute", "pad", "downsample")
        return " + ".join(o.name for o in self.operations if o.kind not in moving) or self.name

    def apply_linear(self, v: torch.Tensor, tensors: Tensors) -> torch.Tensor:
        """A v for the linear part A, `v: (n, *shape)`."""
        return run(self.operations, v, tensors, start=self.source, constants=False)[self.name]

    def apply_transpose(self, u: torch.Tensor, tensors: Tensors) -> torch.Tensor:
        """Aᵀ u for `u: (n, *outputs)`; differentiable in the weights where gradients are enabled."""
        differentiable = torch.is_grad_enabled()
        if not differentiable:
            tensors = {name: tensor.detach() for name, tensor in tensors.items()}
        with torch.enable_grad():
            v = u.new_zeros(len(u), *self.shape, requires_grad=True)
            (pulled,) = torch.autograd.grad(self.apply_linear(v, tensors), v, u, create_graph=differentiable)
        return pulled


@dataclass(frozen=True)
class Graph:
    """A network as blocks, and the values that they lead to and from."""

    operations: tuple[Operation, ...]

    @cached_property
    def _sources(self) -> dict[str, str]:
        """For each value, the value of which it is an affine function: itself, where it is none of a single other."""
        sources: dict[str, str] = {}
        for operation in self.operations:
            given = {sources[name] for name in operation.inputs}
            affine = operation.kind in AFFINE and len(given) == 1
            sources[operation.name] = given.pop() if affine else operation.name
        return sources

    def block(self, name: str) -> AffineBlock | None:
        """The block that ends with the value `name`; None where that value is a source."""
        source, needed = self._sources[name], {name}
        if source == name:
            return None
        within = []
        for operation in reversed(self.operations):
            if operation.name in needed and operation.name != source:
                within.append(operation)
                needed.update(operation.inputs)
        shape = next(operation.shape for operation in self.operations if operation.name == source)
        return AffineBlock(source, shape, tuple(reversed(within)))

    @cached_property
    def blocks(self) -> tuple[AffineBlock, ...]:
        """All blocks whose bounds count, in the order of the run; the last one makes the logits."""
        ends = [name for o in self.operations if self._sources[o.name] == o.name for name in o.inputs]
        found = (self.block(name) for name in dict.fromkeys([*ends, self.operations[-1].name]))
        return tuple(block for block in found if block is not None)

    def gains(self, norm: Norm, gain: Callable[[AffineBlock], Gain], one: Gain) -> dict[str, Gain]:
        """For each source, how far it can move when the input moves by one (eq. 6.9, along the graph).

        `gain(block)` bounds a block. It may be a number or a tensor with gradients; `one` is 1 in the same form.
        """
        found: dict[str, Gain] = {}
        blocks = {block.name: block for block in self.blocks}

        def reached(name: str) -> Gain:
            return found[blocks[name].source] * gain(blocks[name]) if name in blocks else found[name]

        for operation in self.operations:
            if self._sources[operation.name] == operation.name:
                given = [reached(name) for name in operation.inputs]
                found[operation.name] = combine_gains(operation, given, norm) if given else one
        return found


def combine_gains(operation: Operation, given: Sequence[Gain], norm: Norm) -> Gain:
    """How far the result can move, where the inputs can move as far as `given` in `norm`."""
    settings, first = operation.settings, given[0]
    match operation.kind:
        case "activation":
            return first * operation.slope
        case "max_pool":
            return first * pool_gain(settings["kernel"], settings["stride"], settings["dilation"], norm)
        case "add":
            return _total([g * abs(float(c)) for c, g in zip(settings["coefficients"], given, strict=True)])
        case "concatenate":
            if norm == "linf":
                return max(given, key=float)
            return _total(given) if norm == "l1" else _root(_total([g * g for g in given]))
        case "group_sort" | "reshape" | "permute" | "pad" | "downsample":
            return first
    raise AssertionError(f"{operation.kind} does not bound by itself")


def _total(gains: Sequence[Gain]) -> Gain:
    """The sum, of numbers or of tensors."""
    result = gains[0]
    for gain in gains[1:]:
        result = result + gain
    return result


def _root(gain: Gain) -> Gain:
    return gain.sqrt() if isinstance(gain, torch.Tensor) else math.sqrt(gain)
