"""Axes: which axis of a value inside a network is channel, row, column or token, found by following the operations.

Every axis is a list of factors with a name and a size: a picture's axes begin as (batch, channel, row, column), a
convolution gives the same again, `permute` moves them, `flatten` puts two factors on one axis and `view` takes them
apart again. What an operation does to them is known for the operations below; any other that keeps the shape keeps the
axes, and after all else they are unknown, which is said and not guessed at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary


@dataclass(frozen=True)
class Factor:
    """A named part of an axis. `grid` says of tokens which rows and columns they stand for, after `first` others."""

    name: str
    size: int
    grid: tuple[int, int] | None = None
    first: int = 0


Axis = tuple[Factor, ...]
Axes = tuple[Axis, ...]
POSITIONS = ("row", "column")


class FollowAxes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows the axes of tensors through a run; `axes_of(tensor)` says what is known of one."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._known: Any = WeakTensorKeyDictionary()

    def begin(self, x: torch.Tensor) -> None:
        """Pictures `x: (n, c, h, w)` enter the network."""
        names = ("batch", "channel", *POSITIONS)
        self._known[x] = tuple((Factor(name, size),) for name, size in zip(names, x.shape, strict=True))

    def axes_of(self, tensor: torch.Tensor) -> Axes | None:
        """The axes of a tensor of this run, or None."""
        found: Axes | None = self._known.get(tensor)
        return found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        first = result[0] if isinstance(result, tuple | list) and result else result
        if isinstance(first, torch.Tensor):
            try:
                found = self._follow(func._schema.name.removeprefix("aten::"), args, first)
            except (ValueError, IndexError, TypeError):  # not what the rule is made for: nothing is known
                found = None
            if found is not None:
                for each in result if isinstance(result, tuple | list) else (first,):
                    if isinstance(each, torch.Tensor) and each.shape == first.shape:
                        self._known[each] = found
        return result

    def _follow(self, name: str, args: Any, result: torch.Tensor) -> Axes | None:
        tensors = [t for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor)]
        inputs = [(t, self.axes_of(t)) for t in tensors]
        known = [(t, a) for t, a in inputs if a is not None]
        if not known:
            return None
        rule = _RULES.get(name.rstrip("_"))
        if rule is not None:
            return rule(args, inputs, result)
        if any(word in name for word in _REORDERS):
            return None
        return next((a for t, a in known if t.shape == result.shape), None) or _pooled(name, known[0][1], result)


# Operations that keep the shape but may bring any value to any place.
_REORDERS = ("index", "gather", "scatter", "sort", "take", "topk", "fft", "as_strided", "shuffle")
Inputs = list[tuple[torch.Tensor, Axes | None]]


def _pooled(name: str, axes: Axes, result: torch.Tensor) -> Axes | None:
    """Pooling, padding and resizing change the sizes of rows and columns alone."""
    if len(axes) != result.ndim or not any(word in name for word in ("pool", "pad", "upsample", "slice", "expand")):
        return None
    return tuple(_resized(axis, size) for axis, size in zip(axes, result.shape, strict=True))


def _resized(axis: Axis, size: int) -> Axis:
    total = _size(axis)
    if total == size:
        return axis
    return (Factor(axis[0].name if len(axis) == 1 else "token", size),)


def _size(axis: Axis) -> int:
    total = 1
    for factor in axis:
        total *= factor.size
    return total


def _convolution(args: Any, inputs: Inputs, result: torch.Tensor) -> Axes | None:
    names = ("batch", "channel", *POSITIONS) if result.ndim == 4 else ("batch", "channel", "token")
    return tuple((Factor(name, size),) for name, size in zip(names, result.shape, strict=True))


def _permute(args: Any, inputs: Inputs, result: torch.Tensor) -> Axes | None:
    axes = inputs[0][1]
    return None if axes is None else tuple(axes[d] for d in args[1])


def _transpose(args: Any, inputs: Inputs, result: torch.Tensor) -> Axes | None:
    axes = inputs[0][1]
    if axes is None:
        return None
    moved = list(axes)
    one, other = args[1:3] if len(args) > 2 else (0, 1)
    moved[one], moved[other] = moved[other], moved[one]
    return tuple(moved)


def _view(args: Any, inputs: Inputs, result: torch.Tensor) -> Axes | None:
    """Put the factors on the new axes in order; a factor that is cut in two becomes two without a known meaning."""
    axes = inputs[0][1]
    if axes is None:
        return None
    rest = [factor for axis in axes for factor in axis if factor.size != 1]
    found: list[Axis] = []
    for size in result.shape:
        axis: list[Factor] = []
        while _size(tuple(axis)) < size:
            factor, wanted = rest.pop(0), size // _size(tuple(axis))
            if factor.size > wanted:
                if factor.size % wanted:
                    raise ValueError("the axes do not come apart")
                # Heads are a part of the channel that comes first; of tokens, windows are unknown.
                inner = "head" if factor.name == "channel" else "part"
                rest.insert(0, Factor(factor.name, factor.size // wanted))
                factor = Factor(inner, wanted)
            axis.append(factor)
        if _size(tuple(axis)) != size:
            raise ValueError("the axes do not fit")
        found.append(tuple(axis) or (Factor("one", 1),))
    return tuple(_joined(axis) for axis in found)


def _joined(axis: Axis) -> Axis:
    """Heads that stand before their channel again are a channel."""
    if [f.name for f in axis] == ["head", "channel"]:
        return (Factor("channel", _size(axis)),)
    return axis


def _cat(args: Any, inputs: Inputs, result: torch.Tensor) -> Axes | None:
    dim = (args[1] if len(args) > 1 else 0) % result.ndim
    index, axes = next((i, a) for i, (_, a) in enumerate(inputs) if a is not None)
    grown = axes[dim]
    first = sum(t.shape[dim] for t, _ in inputs[:index])
    names = tuple(f.name for f in grown)
    if names == POSITIONS:  # a class token beside those of the picture
        new = Factor("token", result.shape[dim], (grown[0].size, grown[1].size), first)
    else:
        new = Factor(names[0] if len(names) == 1 else "token", result.shape[dim])
    return (*axes[:dim], (new,), *axes[dim + 1 :])


def _linear(args: Any, inputs: Inputs, result: torch.Tensor) -> Axes | None:
    """A product with weights, of which nothing is known: the last axis becomes one of new channels."""
    left = inputs[-2][1]
    right = inputs[-1][1]
    if left is None:
        return None
    last: Axis = (Factor("channel", result.shape[-1]),) if right is None else right[-1]
    return (*left[:-1], last)


def _reduced(args: Any, inputs: Inputs, result: torch.Tensor) -> Axes | None:
    axes = inputs[0][1]
    if axes is None or len(args) < 2 or args[1] is None:
        return None
    dims = {d % len(axes) for d in ([args[1]] if isinstance(args[1], int) else args[1])}
    if result.ndim == len(axes):
        return tuple((Factor(a[0].name if len(a) == 1 else "one", 1),) if i in dims else a for i, a in enumerate(axes))
    return tuple(a for i, a in enumerate(axes) if i not in dims)


def _unsqueezed(args: Any, inputs: Inputs, result: torch.Tensor) -> Axes | None:
    axes = inputs[0][1]
    dim = args[1] % result.ndim
    return None if axes is None else (*axes[:dim], (Factor("one", 1),), *axes[dim:])


def _squeezed(args: Any, inputs: Inputs, result: torch.Tensor) -> Axes | None:
    axes = inputs[0][1]
    return None if axes is None else tuple(a for a in axes if _size(a) != 1) if result.ndim < len(axes) else axes


def _unbound(args: Any, inputs: Inputs, result: torch.Tensor) -> Axes | None:
    """The parts of an axis, each without it."""
    axes = inputs[0][1]
    dim = (args[1] if len(args) > 1 else 0) % (result.ndim + 1)
    return None if axes is None else tuple(a for i, a in enumerate(axes) if i != dim)


def _stacked(args: Any, inputs: Inputs, result: torch.Tensor) -> Axes | None:
    """A new axis; after heads, it is the rest of the channel again, as where MinMax sorts neighbouring channels."""
    dim = (args[1] if len(args) > 1 else 0) % result.ndim
    axes = next(a for _, a in inputs if a is not None)
    after_heads = dim > 0 and [f.name for f in axes[dim - 1]] == ["head"]
    return (*axes[:dim], (Factor("channel" if after_heads else "part", result.shape[dim]),), *axes[dim:])


Rule = Callable[[Any, Inputs, torch.Tensor], Axes | None]
_RULES: dict[str, Rule] = {
    "convolution": _convolution,
    "mkldnn_convolution": _convolution,
    "permute": _permute,
    "transpose": _transpose,
    "t": _transpose,
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "flatten", "unflatten", "_reshape_alias"), _view),
    "cat": _cat,
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm", "matmul", "linear"), _linear),
    **dict.fromkeys(("mean", "sum", "amax", "select", "max"), _reduced),
    "unbind": _unbound,
    "stack": _stacked,
    "unsqueeze": _unsqueezed,
    "squeeze": _squeezed,
}


def summarise(axes: Axes | None) -> tuple[Factor, ...] | None:
    """One factor for each axis of an example, without the batch; None where an axis is unknown or a mixture."""
    if axes is None or [f.name for f in axes[0]] != ["batch"]:
        return None
    found = []
    for axis in axes[1:]:
        names = tuple(f.name for f in axis)
        if names == POSITIONS:
            found.append(Factor("token", _size(axis), (axis[0].size, axis[1].size)))
        elif len(axis) == 1 and axis[0].name in ("channel", "row", "column", "token"):
            found.append(axis[0])
        else:
            return None
    return tuple(found)


_TOLD: WeakKeyDictionary[torch.nn.Module, dict[str, tuple[str, ...]]] = WeakKeyDictionary()


def tell_axes(module: torch.nn.Module, place: str, names: Sequence[str]) -> None:
    """Say what the axes at a place are, where they cannot be found out."""
    _TOLD.setdefault(module, {})[place] = tuple(names)


def told_axes(module: torch.nn.Module, place: str) -> tuple[str, ...] | None:
    """What was said about a place."""
    return _TOLD.get(module, {}).get(place)
