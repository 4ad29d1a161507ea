"""Layers whose per-example gradients follow from what enters them and the gradient of what leaves them.

For each example, a layer's gradient is a sum of products of its input `a` and its output's gradient `b`. So its norm
and any weighted sum over examples can be had without the gradients themselves (Li2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import nn
from torch.nn import functional

Weigh = Callable[[torch.Tensor], list[tuple[torch.Tensor, torch.Tensor]]]
"""From one weight per example `(n,)`: each parameter with the weighted sum of its per-example gradients."""

_MOST_NUMBERS = 2**25
"""Per-example gradients are kept only up to 128 MB of float32: beyond, they are multiplied out twice instead."""
_IN_CACHE = 2**18
"""The patches of a convolution are made in parts of 1 MB of float32: half of a core's second cache."""


@dataclass(frozen=True)
class Call:
    """One call of a layer: its input `a: (n, ...)`, and the gradient `b: (n, ...)` of the summed loss at its output."""

    a: torch.Tensor
    b: torch.Tensor


@dataclass(frozen=True)
class PerExample:
    """What one layer contributes: squared norms `(n,)` of its per-example gradients, and their weighted sum."""

    squares: torch.Tensor
    weigh: Weigh


Rule = Callable[[nn.Module, Sequence[Call]], PerExample]


def rule_for(layer: nn.Module) -> Rule | None:
    """The rule of a layer, or None where there is none. A subclass with another forward pass has none."""
    for kind, rule in _RULES.items():
        if type(layer).forward is kind.forward and not getattr(layer, "parametrizations", None):
            return rule if _is_plain(layer) else None
    return None


def _is_plain(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Embedding):
        return layer.max_norm is None and not layer.scale_grad_by_freq and not layer.sparse
    return True


def _linear(layer: nn.Module, calls: Sequence[Call]) -> PerExample:
    assert isinstance(layer, nn.Linear)
    return _products(layer.weight, layer.bias, *_positions(calls))


def _convolution(layer: nn.Module, calls: Sequence[Call]) -> PerExample:
    """A convolution is a linear layer on the patches of its input, at each position and in each group."""
    assert isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d)
    if len(calls) == 1 and len(calls[0].a) * layer.weight.numel() <= _MOST_NUMBERS:
        return _kept_convolution(layer, calls[0])
    groups, patches, slopes = layer.groups, [], []
    for call in calls:
        columns = _patches(layer, call.a)  # (n, in · kernel, positions)
        n, positions = len(columns), columns.shape[-1]
        patches.append(columns.view(n * groups, -1, positions).transpose(1, 2))
        slopes.append(call.b.reshape(n * groups, -1, positions).transpose(1, 2))
    return _products(layer.weight, layer.bias, _joined(patches), _joined(slopes), groups)


def _kept_convolution(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, call: Call) -> PerExample:
    """The gradients of a convolution, a few examples at a time.

    Their patches then stay in the processor's cache, and in memory that is not asked for anew: to make all of them at
    once took half of the time of a step.
    """
    n, groups = len(call.a), layer.groups
    slopes = call.b.reshape(n, groups, layer.out_channels // groups, -1)
    kept: dict[torch.Tensor, torch.Tensor] = {}
    if layer.bias is not None:
        kept[layer.bias] = slopes.sum(dim=3).view(n, -1)
    if layer.weight.requires_grad:
        found = call.a.new_empty(n, groups, slopes.shape[2], layer.weight[0].numel())
        at_once = max(1, _IN_CACHE // (layer.weight[0].numel() * groups * slopes.shape[3]))
        for start in range(0, n, at_once):
            some = slice(start, start + at_once)
            columns = _patches(layer, call.a[some]).view(-1, found.shape[3], slopes.shape[3])
            torch.bmm(slopes[some].flatten(0, 1), columns.transpose(1, 2), out=found[some].flatten(0, 1))
        kept[layer.weight] = found.view(n, *layer.weight.shape)
    return _kept(kept)


def _embedding(layer: nn.Module, calls: Sequence[Call]) -> PerExample:
    """The rows of two positions add up where both hold the same token."""
    assert isinstance(layer, nn.Embedding)
    weight = layer.weight
    tokens = torch.cat([call.a.flatten(1) if call.a.ndim > 1 else call.a[:, None] for call in calls], dim=1)
    slopes = torch.cat([call.b.reshape(len(call.b), -1, weight.shape[1]) for call in calls], dim=1)
    if layer.padding_idx is not None:
        slopes = slopes.masked_fill((tokens == layer.padding_idx)[..., None], 0)
    same = tokens[:, :, None] == tokens[:, None, :]
    squares = (slopes @ slopes.transpose(1, 2)).masked_fill(~same, 0).sum(dim=(1, 2))

    def weigh(weights: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        rows = (slopes * weights[:, None, None]).flatten(0, 1)
        return [(weight, torch.zeros_like(weight).index_add_(0, tokens.flatten(), rows))]

    return PerExample(squares, weigh)


def _normalisation(layer: nn.Module, calls: Sequence[Call]) -> PerExample:
    """The scale and the shift of a layer or group norm: as many numbers per example as there are channels."""
    parts: dict[torch.Tensor, torch.Tensor] = {}
    for call in calls:
        if isinstance(layer, nn.LayerNorm):
            plain = functional.layer_norm(call.a, layer.normalized_shape, eps=layer.eps)
            others = tuple(range(1, call.a.ndim - len(layer.normalized_shape)))
        else:
            assert isinstance(layer, nn.GroupNorm)
            plain = functional.group_norm(call.a, layer.num_groups, eps=layer.eps)
            others = tuple(range(2, call.a.ndim))
        for parameter, gradient in ((layer.weight, call.b * plain), (layer.bias, call.b)):
            if parameter is not None:
                found = gradient.sum(dim=others) if others else gradient
                parts[parameter] = parts[parameter] + found if parameter in parts else found
    return _kept(parts)


_RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: _linear,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.Conv3d: _convolution,
    nn.Embedding: _embedding,
    nn.LayerNorm: _normalisation,
    nn.GroupNorm: _normalisation,
}


def _products(
    weight: torch.Tensor, bias: torch.Tensor | None, a: torch.Tensor, b: torch.Tensor, groups: int = 1
) -> PerExample:
    """A linear layer at `positions`: `a: (n · groups, positions, in)`, `b: (n · groups, positions, out)`."""
    n, positions = len(a) // groups, a.shape[1]
    size_in, size_out = a.shape[2], b.shape[2]
    kept: dict[torch.Tensor, torch.Tensor] = {}
    squares = a.new_zeros(n)
    if bias is not None and bias.requires_grad:
        kept[bias] = b.sum(dim=1).view(n, -1)
    if weight.requires_grad:
        if positions == 1:
            squares = _squares(a.view(n, -1)) * _squares(b.view(n, -1)) if groups == 1 else squares
        # With few positions, products of positions are cheaper than to write the gradients down and read them again.
        few = positions * positions * (size_in + size_out) < 4 * size_in * size_out
        if groups == 1 and positions > 1 and (few or n * size_in * size_out > _MOST_NUMBERS):
            squares = ((a @ a.transpose(1, 2)) * (b @ b.transpose(1, 2))).sum(dim=(1, 2))
        elif groups > 1 or positions > 1:
            kept[weight] = (b.transpose(1, 2) @ a).view(n, *weight.shape)
    rest = _kept(kept)

    def weigh(weights: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        found = rest.weigh(weights)
        if weight.requires_grad and weight not in kept:
            slopes = (b * weights[:, None, None]).flatten(0, 1)
            found.append((weight, (slopes.t() @ a.flatten(0, 1)).view_as(weight)))
        return found

    return PerExample(squares + rest.squares, weigh)


def _kept(parts: dict[torch.Tensor, torch.Tensor]) -> PerExample:
    """Per-example gradients `(n, ...)` that are small enough to be kept."""
    wanted = {parameter: found for parameter, found in parts.items() if parameter.requires_grad}
    squares = [_squares(found.flatten(1)) for found in wanted.values()]

    def weigh(weights: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [(p, (weights @ found.flatten(1)).view_as(p)) for p, found in wanted.items()]

    return PerExample(torch.stack(squares).sum(dim=0) if squares else torch.zeros(()), weigh)


def _squares(rows: torch.Tensor) -> torch.Tensor:
    lengths: torch.Tensor = torch.linalg.vector_norm(rows, dim=1)  # unlike vecdot, it writes no products down
    return lengths.square()


def _positions(calls: Sequence[Call]) -> tuple[torch.Tensor, torch.Tensor]:
    """The inputs and slopes of all calls as `(n, positions, features)`: several calls are so many more positions."""
    a = [call.a.reshape(len(call.a), -1, call.a.shape[-1]) for call in calls]
    b = [call.b.reshape(len(call.b), -1, call.b.shape[-1]) for call in calls]
    return _joined(a), _joined(b)


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    """All positions of all calls; of one call, without a copy."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _patches(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, a: torch.Tensor) -> torch.Tensor:
    """What each position of a convolution's output sees: `(n, in · kernel, positions)`.

    A strided view and one copy take half the time of `functional.unfold`, and know convolutions of any dimension.
    """
    if any(layer._reversed_padding_repeated_twice):
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        a = functional.pad(a, layer._reversed_padding_repeated_twice, mode=mode)
    steps = a.stride()[2:]
    places = [
        (size - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, dilation, stride in zip(
            a.shape[2:], layer.kernel_size, layer.dilation, layer.stride, strict=True
        )
    ]
    view = a.as_strided(
        (*a.shape[:2], *layer.kernel_size, *places),
        (
            *a.stride()[:2],
            *(step * dilation for step, dilation in zip(steps, layer.dilation, strict=True)),
            *(step * stride for step, stride in zip(steps, layer.stride, strict=True)),
        ),
    )
    return view.reshape(len(a), -1, prod(places))
