"""Crossing: what one piece of a network hands to the next, as a flat row of tensors and plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from modelkeep.core.errors import SliceError
from modelkeep.core.slices.layout import Layout, lay_out

_FIXED = (type(None), str, torch.dtype, torch.device, torch.layout, torch.memory_format)


@dataclass(frozen=True)
class Crossing:
    """How the values of a cut become a row of tensors and numbers, and again those values.

    A program may carry nests (an LSTM's result, a whole shape) and the same tensor under two names. What crosses is
    each tensor once, and each number; what is the same in every pass (None, a dtype) is kept and does not cross. A
    tensor crosses with its dimensions in the order of its memory and is laid out again as it was, and its gradient as
    it was (`back`): torch rounds differently, and drops out other units, where the same numbers lie otherwise.
    """

    names: tuple[str, ...]
    ahead: tuple[Layout | None, ...]
    back: tuple[Layout | None, ...]
    structure: pytree.TreeSpec
    slots: tuple[int | None, ...]
    fixed: tuple[Any, ...]

    @classmethod
    def of(cls, names: Sequence[str], values: Sequence[Any]) -> Crossing:
        """Learn it from the values of a probe."""
        row: list[Any] = []
        called: list[str] = []
        slots: list[int | None] = []
        seen: dict[int, int] = {}
        for name, value in zip(names, values, strict=True):
            leaves = pytree.tree_leaves(_plain(value))
            for i, leaf in enumerate(leaves):
                if isinstance(leaf, _FIXED):
                    slots.append(None)
                elif not isinstance(leaf, torch.Tensor | bool | int | float):
                    raise SliceError(
                        f"'{name}' passes around the cut and holds a {type(leaf).__name__}; only tensors and numbers "
                        "can go from party to party. Cut at another place."
                    )
                elif isinstance(leaf, torch.Tensor) and id(leaf) in seen:
                    slots.append(seen[id(leaf)])
                else:
                    seen[id(leaf)] = len(row)
                    slots.append(len(row))
                    row.append(leaf)
                    called.append(name if len(leaves) == 1 else f"{name}.{i}")
        leaves, structure = pytree.tree_flatten([_plain(value) for value in values])
        fixed = tuple(leaf for leaf, slot in zip(leaves, slots, strict=True) if slot is None)
        ahead = _layouts(row)
        return cls(tuple(called), ahead, (None,) * len(row), structure, tuple(slots), fixed)

    def with_gradients(self, gradients: Sequence[torch.Tensor | None]) -> Crossing:
        """The same, when the layouts of the gradients are known too."""
        return replace(self, back=_layouts(gradients))

    def pack(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The row that crosses."""
        leaves, structure = pytree.tree_flatten([_plain(value) for value in values])
        row: list[Any] = []
        fixed = []
        same = structure == self.structure
        for leaf, slot in zip(leaves, self.slots, strict=False):
            if slot is None:
                fixed.append(leaf)
            elif slot == len(row):
                row.append(leaf)
            else:
                same = same and row[slot] is leaf
        if not same or tuple(fixed) != self.fixed:
            raise SliceError(
                f"The network took another way for these inputs than for the probe: {', '.join(self.names)} would "
                "cross the cut, but something else was computed."
            )
        return tuple(
            lay_out(v if ahead is None else v.permute(ahead.order), back=back)
            for v, ahead, back in zip(row, self.ahead, self.back, strict=True)
        )

    def unpack(self, row: Sequence[Any]) -> list[Any]:
        """The values, from a row that crossed."""
        ordered = [v if ahead is None else _as_it_lay(v, ahead) for v, ahead in zip(row, self.ahead, strict=True)]
        fixed = iter(self.fixed)
        leaves = [next(fixed) if slot is None else ordered[slot] for slot in self.slots]
        values: list[Any] = pytree.tree_unflatten(leaves, self.structure)
        return values


def _layouts(row: Sequence[Any]) -> tuple[Layout | None, ...]:
    return tuple(Layout.of(value) if isinstance(value, torch.Tensor) else None for value in row)


def _as_it_lay(value: torch.Tensor, ahead: Layout) -> torch.Tensor:
    ordered = value.permute(ahead.inverse)
    return ordered if ahead.dense else lay_out(ordered, ahead=ahead)


def _plain(value: Any) -> Any:
    """A shape is a tuple of numbers."""
    return pytree.tree_map(
        lambda leaf: tuple(leaf) if isinstance(leaf, torch.Size) else leaf,
        value,
        is_leaf=lambda leaf: isinstance(leaf, torch.Size),
    )
