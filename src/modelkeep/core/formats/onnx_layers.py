"""The ONNX operations with windows, statistics and axes to reduce: convolution, pooling, normalisation, reduction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from modelkeep.core.errors import ModelError
from modelkeep.core.formats.onnx_operations import operation

_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED: dict[int, Callable[..., Tensor]] = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
_MAX_POOLS: dict[int, Callable[..., Tensor]] = {
    1: functional.max_pool1d,
    2: functional.max_pool2d,
    3: functional.max_pool3d,
}
_AVERAGE_POOLS: dict[int, Callable[..., Tensor]] = {
    1: functional.avg_pool1d,
    2: functional.avg_pool2d,
    3: functional.avg_pool3d,
}


def _pads(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str,
) -> list[int]:
    """ONNX's pads (all begins, then all ends), worked out where `auto_pad` asks for it."""
    if auto_pad == "NOTSET":
        return list(pads) if pads is not None else [0] * 2 * len(kernel)
    if auto_pad == "VALID":
        return [0] * 2 * len(kernel)
    begins, ends = [], []
    for length, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True):
        total = max(0, (math.ceil(length / s) - 1) * s + (k - 1) * d + 1 - length)
        smaller, larger = total // 2, total - total // 2
        begins.append(larger if auto_pad == "SAME_LOWER" else smaller)
        ends.append(smaller if auto_pad == "SAME_LOWER" else larger)
    return begins + ends


def _padded(x: Tensor, pads: Sequence[int], value: float = 0.0) -> Tensor:
    """`x` with borders; torch wants them from the last axis to the first."""
    half = len(pads) // 2
    pairs = [side for i in reversed(range(half)) for side in (pads[i], pads[half + i])]
    return functional.pad(x, pairs, value=value) if any(pairs) else x


def _symmetric(pads: Sequence[int]) -> list[int] | None:
    """One number per axis, if begins and ends are equal."""
    half = len(pads) // 2
    return list(pads[:half]) if list(pads[:half]) == list(pads[half:]) else None


@operation("Conv")
def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
) -> Tensor:
    axes = weight.ndim - 2
    strides, dilations = strides or [1] * axes, dilations or [1] * axes
    around = _pads(x, weight.shape[2:], strides, dilations, pads, auto_pad)
    padding = _symmetric(around)
    if padding is None:
        x, padding = _padded(x, around), [0] * axes
    return _CONVOLUTIONS[axes](x, weight, bias, tuple(strides), tuple(padding), tuple(dilations), group)


@operation("ConvTranspose")
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
) -> Tensor:
    axes = weight.ndim - 2
    around = list(pads) if pads is not None else [0] * 2 * axes
    added = list(output_padding) if output_padding is not None else [0] * axes
    padding = _symmetric(around)
    if padding is None:
        raise ModelError(f"ModelKeep reads ConvTranspose with equal pads on both sides only. Got pads {around}.")
    return _TRANSPOSED[axes](
        x,
        weight,
        bias,
        tuple(strides or [1] * axes),
        tuple(padding),
        tuple(added),
        group,
        tuple(dilations or [1] * axes),
    )


@operation("MaxPool")
def max_pool(
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    ceil_mode: int = 0,
    auto_pad: str = "NOTSET",
    storage_order: int = 0,
) -> Tensor:
    axes = len(kernel_shape)
    strides, dilations = strides or [1] * axes, dilations or [1] * axes
    around = _pads(x, kernel_shape, strides, dilations, pads, auto_pad)
    padding = _symmetric(around)
    if padding is None or any(2 * p > k for p, k in zip(padding, kernel_shape, strict=True)):
        x, padding = _padded(x, around, -math.inf), [0] * axes
    return _MAX_POOLS[axes](x, tuple(kernel_shape), tuple(strides), tuple(padding), tuple(dilations), bool(ceil_mode))


@operation("AveragePool")
def average_pool(
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    ceil_mode: int = 0,
    auto_pad: str = "NOTSET",
    count_include_pad: int = 0,
) -> Tensor:
    axes = len(kernel_shape)
    strides = tuple(strides or [1] * axes)
    around = _pads(x, kernel_shape, strides, dilations or [1] * axes, pads, auto_pad)
    pool, kernel, padding = _AVERAGE_POOLS[axes], tuple(kernel_shape), _symmetric(around)
    if any(d != 1 for d in dilations or ()) or (ceil_mode and padding is None):
        raise ModelError("ModelKeep reads AveragePool without dilations, and with ceil_mode only for equal pads.")
    if padding is not None and all(2 * p <= k for p, k in zip(padding, kernel, strict=True)):
        return pool(x, kernel, strides, tuple(padding), bool(ceil_mode), bool(count_include_pad))
    average = pool(_padded(x, around), kernel, strides)
    # Without the border in the count: divide by the share of each window that lies inside.
    return average if count_include_pad else average / pool(_padded(torch.ones_like(x), around), kernel, strides)


@operation("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return x.mean(tuple(range(2, x.ndim)), keepdim=True)


@operation("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return x.amax(tuple(range(2, x.ndim)), keepdim=True)


@operation("BatchNormalization")
def batch_normalization(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
) -> Tensor:
    if training_mode or not spatial:
        raise ModelError("This graph normalises by the batch's own statistics. Call module.eval() and export it again.")
    return functional.batch_norm(x, running_mean, running_var, weight, bias, training=False, eps=epsilon)


@operation("InstanceNormalization")
def instance_normalization(x: Tensor, weight: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    return functional.instance_norm(x, weight=weight, bias=bias, eps=epsilon)


@operation("LayerNormalization")
def layer_normalization(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    return functional.layer_norm(x, x.shape[axis:], weight.expand(x.shape[axis:]), bias, epsilon)


@operation("GroupNormalization")
def group_normalization(
    x: Tensor, weight: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    return functional.group_norm(x, num_groups, weight, bias, epsilon)


@operation("Pad", lists=(1, 3))
def pad(
    x: Tensor,
    pads: Sequence[int],
    value: Tensor | float = 0.0,
    axes: Sequence[int] | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    half = len(pads) // 2
    sides = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes if axes is not None else range(half)):
        sides[axis] = (pads[i], pads[half + i])
    while sides and sides[0] == (0, 0):  # torch reflects only the last axes, and wants no others named
        del sides[0]
    pairs = [side for pair in reversed(sides) for side in pair]
    if mode == "constant" or not pairs:
        return functional.pad(x, pairs, value=float(value if value is not None else 0.0))
    return functional.pad(x, pairs, mode={"reflect": "reflect", "edge": "replicate", "wrap": "circular"}[mode])


def _reduction(name: str, reduce: Callable[[Tensor, tuple[int, ...], bool], Tensor]) -> None:
    def run(
        x: Tensor, axes: Sequence[int] | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        if not axes and noop_with_empty_axes:
            return x
        return reduce(x, tuple(axes or range(x.ndim)), bool(keepdims))

    operation(name, lists=(1,))(run)


_reduction("ReduceMean", lambda x, axes, keep: x.mean(axes, keepdim=keep))
_reduction("ReduceSum", lambda x, axes, keep: x.sum(axes, keepdim=keep))
_reduction("ReduceMax", lambda x, axes, keep: x.amax(axes, keepdim=keep))
_reduction("ReduceMin", lambda x, axes, keep: x.amin(axes, keepdim=keep))
_reduction("ReduceL1", lambda x, axes, keep: x.abs().sum(axes, keepdim=keep))
_reduction("ReduceL2", lambda x, axes, keep: x.square().sum(axes, keepdim=keep).sqrt())
_reduction("ReduceSumSquare", lambda x, axes, keep: x.square().sum(axes, keepdim=keep))
_reduction("ReduceLogSumExp", lambda x, axes, keep: x.logsumexp(axes, keepdim=keep))


@operation("ArgMax")
def argmax(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    if select_last_index:
        raise ModelError("ModelKeep reads ArgMax with the first index of equal values only.")
    return x.argmax(axis, keepdim=bool(keepdims))
