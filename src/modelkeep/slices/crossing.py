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
    each tensor once, and each number; what is the same in every pass (None, a dtype) is kept and does not cross.
    """

    names: tuple[str, ...]
    structure: pytree.TreeSpec
    slots: tuple[int | None, ...]
    fixed: tuple[Any, ...]

    @classmethod
    def of(cls, names: Sequence[str], values: Sequence[Any]) -> Crossing:
        """Learn it from the values of a probe."""
        row: list[str] = []
        slots: list[int | None] = []
        seen: dict[int, int] = {}
        leaves: list[Any] = []
        for name, value in zip(names, values, strict=True):
            inside = pytree.tree_leaves(_plain(value))
            leaves += inside
            for i, leaf in enumerate(inside):
                if isinstance(leaf, torch.Tensor) and id(leaf) in seen:
                    slots.append(seen[id(leaf)])
                elif isinstance(leaf, torch.Tensor | bool | int | float):
                    seen[id(leaf)] = len(row)
                    slots.append(len(row))
                    row.append(name if len(inside) == 1 else f"{name}.{i}")
                elif isinstance(leaf, FIXED):
                    slots.append(None)
                else:
                    raise SliceError(
                        f"'{name}' passes around the cut and holds a {type(leaf).__name__}; only tensors and numbers "
                        "can go from party to party. Cut at another place."
                    )
        structure = pytree.tree_structure([_plain(value) for value in values])
        fixed = tuple(leaf for leaf, slot in zip(leaves, slots, strict=True) if slot is None)
        return cls(tuple(row), structure, tuple(slots), fixed)

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
        return tuple(row)

    def require(self, row: Sequence[Any]) -> None:
        """Refuse a row that is not of this cut."""
        if len(row) != len(self.names):
            raise SliceError(f"This piece takes {len(self.names)} values ({', '.join(self.names)}). Got {len(row)}.")

    def unpack(self, row: Sequence[Any]) -> list[Any]:
        """The values, from a row that crossed."""
        fixed = iter(self.fixed)
        leaves = [next(fixed) if slot is None else row[slot] for slot in self.slots]
        values: list[Any] = pytree.tree_unflatten(leaves, self.structure)
        return values


def _plain(value: Any) -> Any:
    """A shape is a tuple of numbers."""
    return pytree.tree_map(
        lambda leaf: tuple(leaf) if isinstance(leaf, torch.Size) else leaf,
        value,
        is_leaf=lambda leaf: isinstance(leaf, torch.Size),
    )
