"""Pooling: torch's 2×2 max pooling on a CPU in half of its time, with the same bits, while a network is attacked.

An attack spends up to 40 % of its time in max pooling (docs/results/attack.md). torch compares one window after the
other and keeps a 64-bit index for each; where windows do not overlap, three comparisons of whole strided tensors say
the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.functional import max_pool2d

_CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))  # of a window, in the order of reading


@contextmanager
def quick_pooling(network: nn.Module) -> Iterator[None]:
    """For the time of an attack, the network's 2×2 poolings are the quick ones; then they are as they were before."""
    found = [part for part in network.modules() if _is_quick(part)]
    for part in found:
        part.forward = pool
    try:
        yield
    finally:
        for part in found:
            del part.forward


def pool(x: torch.Tensor) -> torch.Tensor:
    """`max_pool2d(x, 2)` and its gradient, in which the first of equal values takes all, as in torch.

    >>> x = torch.rand(2, 3, 5, 4)
    >>> bool((pool(x) == max_pool2d(x, 2)).all())
    True
    """
    if x.device.type != "cpu" or not x.is_floating_point() or x.ndim != 4 or _is_transformed():
        return max_pool2d(x, 2)
    pooled = _Pool.apply(x)  # type: ignore[no-untyped-call]
    assert isinstance(pooled, torch.Tensor)
    return pooled


class _Pool(torch.autograd.Function):
    """Of each window, whether the upper row, and in each row whether the left value, is at least the other."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        first, second, third, fourth = _corners(x)
        upper, lower = torch.maximum(first, second), torch.maximum(third, fourth)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(upper >= lower, first >= second, third >= fourth)
            ctx.shape = x.shape
        return torch.maximum(upper, lower)

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> torch.Tensor:
        up, left_above, left_below = ctx.saved_tensors
        into = torch.zeros(ctx.shape, dtype=slope.dtype)
        # A product is four times as fast as `where`, but makes NaN of infinity.
        finite = bool(torch.isfinite(slope.sum()))
        chosen = (up & left_above, up & ~left_above, ~up & left_below, ~(up | left_below))
        height, width = (side // 2 * 2 for side in ctx.shape[-2:])
        for (i, j), mine in zip(_CORNERS, chosen, strict=True):
            into[..., i:height:2, j:width:2] = slope * mine if finite else torch.where(mine, slope, 0.0)
        return into


def _corners(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The four values of each window, as views in the order of reading; an odd last row or column is in none."""
    height, width = x.shape[-2] // 2 * 2, x.shape[-1] // 2 * 2
    return tuple(x[..., i:height:2, j:width:2] for i, j in _CORNERS)


def _is_quick(part: nn.Module) -> bool:
    """Whether it is torch's pooling of 2×2 windows that do not overlap, with nothing of the owner's around it."""
    if type(part) is not nn.MaxPool2d or "forward" in vars(part):
        return False
    plain = (part.padding, part.dilation, part.ceil_mode, part.return_indices)
    sides = {*_pair(part.kernel_size), *_pair(part.stride)}
    return sides == {2} and plain in ((0, 1, False, False), ((0, 0), (1, 1), False, False))


def _pair(size: Any) -> tuple[int, ...]:
    return tuple(size) if isinstance(size, tuple | list) else (size,)


def _is_transformed() -> bool:
    """Whether torch.func or a compiler is looking, to whom the function above says nothing."""
    return torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None
