"""Orientation: the value at an inner place of a network for pictures, with its channels first, however it lies there.

A convolution gives (channel, row, column), a channels-last network (row, column, channel), a transformer
(token, channel). All that speaks of channels, units and maps sees the first of these: channels, then rows and columns,
or tokens where some of them stand for no place of the picture, as a class token does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import nn

from modelkeep.core.errors import InputError, Remedy, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.slices import Cut, Place, Slice
from modelkeep.core.slices.axes import Factor, FollowAxes, summarise, tell_axes, told_axes
from modelkeep.core.slices.graphs import identity

NAMES = ("channel", "row", "column", "token")
Tokens = tuple[int, int, int]
"""Rows and columns of the picture that tokens stand for, and how many other tokens come before them."""


@dataclass(frozen=True)
class Orientation:
    """How to bring a value `(n, ...)` to (channel, row, column): `order`, then tokens `apart` into rows and columns.

    Where other tokens stand beside those of the picture it is (channel, token, 1), and `tokens` says which are which.
    `known` is False where the axes could not be found out; then the value is left as it is.
    """

    order: tuple[int, ...]
    apart: tuple[int, int] | None = None
    tokens: Tokens | None = None
    known: bool = True

    def turn(self, value: torch.Tensor) -> torch.Tensor:
        """Channels first."""
        if value.ndim != len(self.order):
            return value
        turned = value.permute(self.order)
        if self.apart is not None:
            return turned.reshape(*turned.shape[:2], *self.apart)
        return turned if self.tokens is None else turned[..., None]

    def turn_back(self, value: torch.Tensor) -> torch.Tensor:
        """As the network has it."""
        if self.apart is not None or self.tokens is not None:
            value = value.flatten(2)
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return value.permute(back) if value.ndim == len(self.order) else value


class OrientedSlice(Slice):
    """A slice whose value, and the one at `until`, have their channels first."""

    orientation: Orientation
    end: Orientation | None

    def h(self, x: torch.Tensor) -> Cut:
        cut = super().h(x)
        return Cut(self.orientation.turn(cut.value), cut.carried)

    def g(self, cut: Cut) -> torch.Tensor:
        output = super().g(Cut(self.orientation.turn_back(cut.value), cut.carried))
        return output if self.end is None else self.end.turn(output)


def oriented_slice(
    model: Model,
    name: str,
    *,
    call: int | None = None,
    until: Place | None = None,
    skip: Literal["carry", "hold"] = "carry",
) -> OrientedSlice:
    """`model.slice(…)`, with channels first at the place and at `until`."""
    cutting = model.slice(name, call=call, until=until, skip=skip)
    found = OrientedSlice(**{each.name: getattr(cutting, each.name) for each in fields(cutting)})
    object.__setattr__(found, "orientation", orientation_at(model, name, call))
    end = None if until is None else orientation_at(model, until.name, until.call)
    object.__setattr__(found, "end", end)
    return found


_FOUND: WeakKeyDictionary[nn.Module, dict[Any, tuple[Any, Orientation]]] = WeakKeyDictionary()


def orientation_at(model: Model, name: str, call: int | None = None) -> Orientation:
    """How the value at a place lies, found by following the axes through a run on a probe."""
    if name == "input":
        return Orientation(tuple(range(1 + len(model.input_shape))))
    kept, told = _FOUND.setdefault(model.module, {}), told_axes(model.module, name)
    now = (identity(model.module), told)
    if kept.get((name, call), (None,))[0] != now:
        kept[name, call] = (now, _find(model, name, call, told))
    return kept[name, call][1]


def say_axes(model: Model, place: str, axes: Sequence[str]) -> None:
    """Say what the axes of one example's value at a place are: "channel", "row", "column" or "token", in order.

    Needed only where they cannot be found out by following the operations. What is said goes before what is found.
    """
    if len(set(axes)) != len(axes) or not set(axes) <= set(NAMES) or "channel" not in axes:
        raise bad_parameter("say_axes", "axes", f"'channel' and others of {', '.join(NAMES)}, each once", tuple(axes))
    tell_axes(model.module, place, axes)


def require_channels(model: Model, name: str, call: int | None = None, *, axes: int = 2) -> Orientation:
    """The orientation, refused where it is not known which of `axes` or more has the channels."""
    found = orientation_at(model, name, call)
    if not found.known and len(found.order) > axes:
        raise InputError(
            f"It is not known which axis of '{name}' has the channels: an operation before it was not understood.",
            remedy=Remedy(
                f"Say it: say_axes(model, {name!r}, ('row', 'column', 'channel')), in the order of its axes.",
                "Choose another place with --slice; modelkeep explain --list-slices lists them.",
            ),
        )
    return found


def _find(model: Model, name: str, call: int | None, told: tuple[str, ...] | None) -> Orientation:
    picture = len(model.input_shape) == 3 and model.nest is None
    probe = model.probe()
    cutting = model.slice(name, call=call)
    follow = FollowAxes()
    if picture:
        follow.begin(probe)
    with torch.no_grad(), follow:
        value = cutting.h(probe).value
    as_it_is = Orientation(tuple(range(value.ndim)))
    if value.ndim < 3 or not picture:
        return as_it_is
    axes = summarise(follow.axes_of(value))
    if told is not None:
        if len(told) != value.ndim - 1:
            raise InputError(
                f"'{name}' has {value.ndim - 1} axes beside the batch, {tuple(value.shape[1:])}. say_axes was given "
                f"{len(told)}: {', '.join(told)}."
            )
        axes = tuple(Factor(each, size) for each, size in zip(told, value.shape[1:], strict=True))
    names = [] if axes is None else [factor.name for factor in axes]
    if axes is None or sorted(names) not in (["channel", "column", "row"], ["channel", "token"]):
        return Orientation(as_it_is.order, known=False)
    wanted = ("channel", "row", "column") if "row" in names else ("channel", "token")
    order = (0, *(1 + names.index(each) for each in wanted))
    if "row" in names:
        return Orientation(order)
    grid = axes[names.index("token")]
    if grid.grid is None:  # tokens of which it is only known that they are some
        return Orientation(order, tokens=(0, 0, 0))
    if grid.size == grid.grid[0] * grid.grid[1]:
        return Orientation(order, apart=grid.grid)
    return Orientation(order, tokens=(*grid.grid, grid.first))
