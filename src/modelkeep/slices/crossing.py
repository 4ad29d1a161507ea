"""Crossing: what one piece of a network hands to the next, as a flat row of tensors and plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from modelkeep.errors import SliceError

FIXED = (type(None), str, torch.dtype, torch.device, torch.layout, torch.memory_format)


@dataclass(frozen=True)
class Crossing:
    """How the values of a cut become a row of tensors and numbers, and again those values.

    A program may carry nests (an LSTM's result, a whole shape) and the same tensor under two names. What crosses is
    each tensor once, and each number; what is the same in every pass (None, a dtype) is kept and does not cross. A
    tensor crosses with its dimensions in the `orders` of its memory and gets its own order again: torch rounds
    differently, and drops out other units, where the same numbers lie in another order.
    """

    names: tuple[str, ...]
    orders: tuple[tuple[int, ...] | None, ...]
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
                if isinstance(leaf, FIXED):
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
        return cls(tuple(called), tuple(map(_order, row)), structure, tuple(slots), fixed)

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
        return tuple(v if order is None else v.permute(order) for v, order in zip(row, self.orders, strict=True))

    def unpack(self, row: Sequence[Any]) -> list[Any]:
        """The values, from a row that crossed."""
        ordered = [
            v if order is None else v.permute(_inverse(order)) for v, order in zip(row, self.orders, strict=True)
        ]
        fixed = iter(self.fixed)
        leaves = [next(fixed) if slot is None else ordered[slot] for slot in self.slots]
        values: list[Any] = pytree.tree_unflatten(leaves, self.structure)
        return values


def _order(value: Any) -> tuple[int, ...] | None:
    """The dimensions from the outermost in memory to the innermost; None where that is how they stand."""
    if not isinstance(value, torch.Tensor) or value.is_contiguous():
        return None
    return tuple(sorted(range(value.dim()), key=value.stride().__getitem__, reverse=True))


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _plain(value: Any) -> Any:
    """A shape is a tuple of numbers."""
    return pytree.tree_map(
        lambda leaf: tuple(leaf) if isinstance(leaf, torch.Size) else leaf,
        value,
        is_leaf=lambda leaf: isinstance(leaf, torch.Size),
    )
