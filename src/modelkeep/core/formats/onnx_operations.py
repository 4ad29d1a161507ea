"""What each ONNX operation does, in torch: one small function per operation, in one table.

A function takes the inputs of the operation by position and its attributes by name, under ONNX's own names. Where a
later opset turned an attribute into an input, the name is the same, so both ways of giving it work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from modelkeep.core.errors import ModelError


@dataclass(frozen=True)
class Operation:
    """The function, and the positions of inputs that are lists of whole numbers (shapes, axes) and not tensors."""

    run: Callable[..., Any]
    lists: tuple[int, ...] = ()


OPERATIONS: dict[str, Operation] = {}


def operation(*names: str, lists: tuple[int, ...] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the function in the table under ONNX's names for it."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        OPERATIONS.update(dict.fromkeys(names, Operation(function, lists)))
        return function

    return enter


def _simple(**functions: Callable[..., Any]) -> None:
    for name, function in functions.items():
        operation(name)(function)


_simple(
    Abs=lambda x: torch.abs(x),
    Add=lambda a, b: a + b,
    And=lambda a, b: torch.logical_and(a, b),
    Ceil=lambda x: torch.ceil(x),
    Celu=lambda x, *, alpha=1.0: functional.celu(x, alpha),
    Cos=lambda x: torch.cos(x),
    Einsum=lambda *xs, equation: torch.einsum(equation, *xs),
    Elu=lambda x, *, alpha=1.0: functional.elu(x, alpha),
    Equal=lambda a, b: a == b,
    Erf=lambda x: torch.erf(x),
    Exp=lambda x: torch.exp(x),
    Floor=lambda x: torch.floor(x),
    Gelu=lambda x, *, approximate="none": functional.gelu(x, approximate=approximate),
    Greater=lambda a, b: a > b,
    GreaterOrEqual=lambda a, b: a >= b,
    HardSigmoid=lambda x, *, alpha=0.2, beta=0.5: torch.clamp(alpha * x + beta, 0, 1),
    HardSwish=lambda x: functional.hardswish(x),
    Identity=lambda x: x,
    IsNaN=lambda x: torch.isnan(x),
    LeakyRelu=lambda x, *, alpha=0.01: functional.leaky_relu(x, alpha),
    Less=lambda a, b: a < b,
    LessOrEqual=lambda a, b: a <= b,
    Log=lambda x: torch.log(x),
    MatMul=lambda a, b: a @ b,
    Mish=lambda x: functional.mish(x),
    Mod=lambda a, b, *, fmod=0: torch.fmod(a, b) if fmod else torch.remainder(a, b),
    Mul=lambda a, b: a * b,
    Neg=lambda x: -x,
    Not=lambda x: torch.logical_not(x),
    Or=lambda a, b: torch.logical_or(a, b),
    Pow=lambda a, b: torch.pow(a, b).to(a.dtype),
    PRelu=lambda x, slope: torch.where(x < 0, slope * x, x),
    Reciprocal=lambda x: torch.reciprocal(x),
    Relu=lambda x: torch.relu(x),
    Round=lambda x: torch.round(x),
    Sigmoid=lambda x: torch.sigmoid(x),
    Sign=lambda x: torch.sign(x),
    Sin=lambda x: torch.sin(x),
    Softplus=lambda x: functional.softplus(x),
    Softsign=lambda x: functional.softsign(x),
    Sqrt=lambda x: torch.sqrt(x),
    Sub=lambda a, b: a - b,
    Tanh=lambda x: torch.tanh(x),
    Where=lambda condition, a, b: torch.where(condition, a, b),
)


@operation("Div")
def div(a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


@operation("Max")
def maximum(first: Tensor, *others: Tensor) -> Tensor:
    for other in others:
        first = torch.maximum(first, other)
    return first


@operation("Min")
def minimum(first: Tensor, *others: Tensor) -> Tensor:
    for other in others:
        first = torch.minimum(first, other)
    return first


@operation("Sum")
def total(first: Tensor, *others: Tensor) -> Tensor:
    for other in others:
        first = first + other
    return first


@operation("Selu")
def selu(x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    return gamma * torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0)))


@operation("Clip")
def clip(x: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    x = x if min is None else torch.maximum(x, torch.as_tensor(min, dtype=x.dtype, device=x.device))
    return x if max is None else torch.minimum(x, torch.as_tensor(max, dtype=x.dtype, device=x.device))


@operation("Softmax")
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return x.softmax(axis)


@operation("LogSoftmax")
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return x.log_softmax(axis)


@operation("Softmax before 13")
def flat_softmax(x: Tensor, *, axis: int = 1) -> Tensor:
    """Until opset 12 a softmax went over all axes from `axis` on."""
    return torch.softmax(flatten(x, axis=axis), 1).reshape(x.shape)


@operation("LogSoftmax before 13")
def flat_log_softmax(x: Tensor, *, axis: int = 1) -> Tensor:
    return torch.log_softmax(flatten(x, axis=axis), 1).reshape(x.shape)


@operation("Gemm")
def gemm(
    a: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    a, weight = a.T if transA else a, weight if transB else weight.T
    if alpha == beta == 1 and (bias is None or bias.ndim == 1):
        return functional.linear(a, weight, bias)
    product = alpha * (a @ weight.T)
    return product if bias is None else product + beta * bias


@operation("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    return x.flatten(1) if axis == 1 and x.ndim > 1 else x.reshape(math.prod(x.shape[:axis]), -1)


@operation("Reshape", lists=(1,))
def reshape(x: Tensor, shape: Sequence[int], *, allowzero: int = 0) -> Tensor:
    return x.reshape([x.shape[i] if n == 0 and not allowzero else n for i, n in enumerate(shape)])


@operation("Transpose")
def transpose(x: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    return x.permute(*(perm if perm is not None else reversed(range(x.ndim))))


@operation("Concat")
def concat(*xs: Tensor, axis: int) -> Tensor:
    return torch.cat(xs, axis)


@operation("Split", lists=(1,))
def split(
    x: Tensor, split: Sequence[int] | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Tensor, ...]:
    if split is not None:
        return torch.split_with_sizes(x, list(split), axis)
    assert num_outputs is not None  # the reader counts them
    return torch.chunk(x, num_outputs, axis)


@operation("Slice", lists=(1, 2, 3, 4))
def slice_(
    x: Tensor,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
) -> Tensor:
    axes = axes if axes is not None else range(len(starts))
    for start, end, axis, step in zip(starts, ends, axes, steps or [1] * len(starts), strict=True):
        chosen = range(*slice(start, end, step).indices(x.shape[axis]))
        if step > 0:
            x = x[(slice(None),) * (axis % x.ndim) + (slice(chosen.start, chosen.stop, step),)]
        else:  # torch has no negative steps
            x = x.index_select(axis, torch.tensor(list(chosen), dtype=torch.int64, device=x.device))
    return x


@operation("Gather")
def gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    axis %= x.ndim
    positive = torch.where(indices < 0, indices + x.shape[axis], indices)
    return x.index_select(axis, positive.flatten()).reshape(x.shape[:axis] + indices.shape + x.shape[axis + 1 :])


@operation("GatherElements")
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return x.gather(axis, torch.where(indices < 0, indices + x.shape[axis], indices))


@operation("Squeeze", lists=(1,))
def squeeze(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


@operation("Unsqueeze", lists=(1,))
def unsqueeze(x: Tensor, axes: Sequence[int]) -> Tensor:
    for axis in sorted(axis % (x.ndim + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x


@operation("Expand", lists=(1,))
def expand(x: Tensor, shape: Sequence[int]) -> Tensor:
    wanted = [1] * (x.ndim - len(shape)) + list(shape)
    new = len(wanted) - x.ndim
    return x.expand([-1 if n == 1 and i >= new else n for i, n in enumerate(wanted)])  # -1: as it is


@operation("Tile", lists=(1,))
def tile(x: Tensor, repeats: Sequence[int]) -> Tensor:
    return x.repeat(*repeats)


@operation("Shape")
def shape(x: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    return torch.tensor(x.shape[start:end], dtype=torch.int64, device=x.device)


@operation("Size")
def size(x: Tensor) -> Tensor:
    return torch.tensor(x.numel(), device=x.device)


@operation("ConstantOfShape")
def constant_of_shape(shape: Tensor, *, value: Tensor | None = None) -> Tensor:
    value = torch.zeros(1) if value is None else value
    return value.to(shape.device).expand(shape.tolist())


@operation("Range")
def range_(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    return torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype, device=start.device)


@operation("Trilu")
def trilu(x: Tensor, k: Tensor | None = None, *, upper: int = 1) -> Tensor:
    diagonal = 0 if k is None else int(k)
    return x.triu(diagonal) if upper else x.tril(diagonal)


@operation("Cast")
def cast(x: Tensor, *, to: torch.dtype, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return x.to(to)


@operation("CastLike")
def cast_like(x: Tensor, like: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return x.to(like.dtype)


@operation("Dropout")
def dropout(x: Tensor, ratio: Any = None, training_mode: Tensor | None = None, *, seed: int = 0) -> Tensor:
    if training_mode is not None and bool(training_mode):
        raise ModelError(
            "This graph was exported in train mode: its dropout is on. Call module.eval() and export it again."
        )
    return x
