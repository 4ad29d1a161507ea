"""Kernels: a convolution with its batch norm, or added to its own input, is again a convolution, with one kernel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from modelkeep.certify.blocks import AffineBlock
from modelkeep.certify.interpreter import Tensors, channel_scale

Windows = tuple[list[int], list[list[int]], list[int], int]
"""Stride, padding, dilation and groups, in the order in which the norms take them."""


@dataclass(frozen=True)
class Kernel:
    """A convolution without groups or dilation: its weight `(out, in, *k)`, stride, and the padding before."""

    weight: torch.Tensor
    stride: tuple[int, ...]
    before: tuple[int, ...]

    @property
    def pointwise(self) -> bool:
        """Whether it only mixes channels, so that another convolution can take it in."""
        return self.weight.shape[2:].numel() == 1 and max(self.stride) == 1 and not any(self.before)

    def windows(self, shape: tuple[int, ...], outputs: tuple[int, ...]) -> Windows:
        """The settings with which it makes `outputs` of an input of `shape`."""
        after = [
            (count - 1) * s + k - size - b
            for count, s, k, size, b in zip(
                outputs[1:], self.stride, self.weight.shape[2:], shape[1:], self.before, strict=True
            )
        ]
        padding = [[b, a] for b, a in zip(self.before, after, strict=True)]
        return list(self.stride), padding, [1] * len(self.stride), 1

    def __add__(self, other: Kernel) -> Kernel:
        """Side by side on the same input: both kernels, laid over each other."""
        before = tuple(map(max, self.before, other.before))
        ends = [
            max(a.weight.shape[2 + axis] - a.before[axis] for a in (self, other)) for axis in range(len(self.stride))
        ]
        return Kernel(self._within(before, ends) + other._within(before, ends), self.stride, before)

    def _within(self, before: tuple[int, ...], ends: list[int]) -> torch.Tensor:
        pairs = [
            [b - own, end - (k - own)]
            for b, own, end, k in zip(before, self.before, ends, self.weight.shape[2:], strict=True)
        ]
        return functional.pad(self.weight, [side for pair in reversed(pairs) for side in pair])


def as_kernel(block: AffineBlock, tensors: Tensors) -> Kernel | None:
    """The block as one convolution in float64, where it is one: no more than one with a window on each path."""
    axes = len(block.shape) - 1
    if axes not in (1, 2):
        return None
    eye = torch.eye(block.shape[0], dtype=torch.float64).view(*(block.shape[0],) * 2, *(1,) * axes)
    found = {block.source: Kernel(eye, (1,) * axes, (0,) * axes)}
    for operation in block.operations:
        given, settings = [found[name] for name in operation.inputs], operation.settings
        match operation.kind:
            case "convolution" if given[0].pointwise:
                spread = _spread(tensors[operation.tensors["weight"]].double(), settings["dilation"])
                weight = torch.einsum(
                    "oi...,ij->oj...", _ungroup(spread, settings["groups"]), given[0].weight.flatten(1)
                )
                before = tuple(pair[0] for pair in settings["padding"])
                made = Kernel(weight, tuple(settings["stride"]), before)
            case "batch_norm" | "scale":
                factor, _ = channel_scale(operation, tensors, torch.zeros(1, *block.shape, dtype=torch.float64))
                made = Kernel(given[0].weight * factor.unsqueeze(1), given[0].stride, given[0].before)
            case "add" if len({kernel.stride for kernel in given}) == 1:
                scaled = [
                    Kernel(c * k.weight, k.stride, k.before)
                    for c, k in zip(settings["coefficients"], given, strict=True)
                ]
                made = sum(scaled[1:], start=scaled[0])
            case _:
                return None
        found[operation.name] = made
    return found[block.name]


def _spread(weight: torch.Tensor, dilation: list[int]) -> torch.Tensor:
    """The kernel with zeros in between, so that it needs no dilation."""
    sizes = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    spread = weight.new_zeros(*weight.shape[:2], *sizes)
    taps = spread[:, :, :: dilation[0]] if len(dilation) == 1 else spread[:, :, :: dilation[0], :: dilation[1]]
    taps.copy_(weight)
    return spread


def _ungroup(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """The kernel with zeros between the groups, so that it needs none."""
    out, each = len(weight) // groups, weight.shape[1]
    whole = weight.new_zeros(len(weight), each * groups, *weight.shape[2:])
    for g in range(groups):
        whole[g * out : (g + 1) * out, g * each : (g + 1) * each] = weight[g * out : (g + 1) * out]
    return whole
