"""Nest: an input of several tensors by name (token ids and their mask), packed into one tensor for every method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any, Literal

import torch

from modelkeep.core.errors import InputError

Kind = Literal["real", "token", "mask", "integer"]
EXACT = 2**24
"""Below it, float32 holds every whole number exactly."""


@dataclass(frozen=True)
class Leaf:
    """One tensor of an example: its name in the module's `forward`, its shape and what its values are.

    `real` values are what a gradient or a ball attack may change. `token` values are ids of `size` words, `mask` values
    0 or 1, `integer` values whole numbers, below `size` where one is given.
    """

    name: str
    shape: tuple[int, ...]
    kind: Kind = "real"
    size: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))  # a list is what a file holds
        if not self.name.isidentifier():
            raise InputError(f"A leaf is called as a parameter of the module's forward. Got {self.name!r}.")
        if any(size < 1 for size in self.shape):
            raise InputError(f"The shape of '{self.name}' needs sizes of at least 1. Got {self.shape}.")
        if self.kind not in ("real", "token", "mask", "integer"):
            raise InputError(f"The kind of '{self.name}' must be real, token, mask or integer. Got {self.kind!r}.")
        sized = self.kind in ("token", "integer")
        if (self.size is not None and not sized) or (self.size is None and self.kind == "token"):
            raise InputError(
                f"A leaf of tokens needs its `size`, the number of different ids; an integer may have one; others have "
                f"none. Got {self.kind} '{self.name}' with size {self.size}."
            )
        if self.size is not None and not 1 <= self.size <= EXACT:
            raise InputError(f"The size of '{self.name}' must be from 1 to {EXACT}. Got {self.size}.")

    @property
    def width(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)

    @property
    def values(self) -> int:
        """How many different whole numbers from 0 on are allowed."""
        if self.kind == "mask":
            return 2
        return self.size if self.size is not None else EXACT

    def check(self, values: torch.Tensor, what: str) -> None:
        """Refuse whole numbers that are out of range, or numbers that are not whole."""
        if self.kind == "real":
            return
        if values.is_floating_point() and not torch.equal(values.detach().round(), values.detach()):
            raise InputError(f"{what} of '{self.name}' must be whole numbers, because its kind is {self.kind}.")
        low, high = float(values.min()), float(values.max())
        if low < 0 or high >= self.values:
            raise InputError(f"{what} of '{self.name}' must lie in 0..{self.values - 1}. Got {low:g}..{high:g}.")


@dataclass(frozen=True)
class Nest:
    """The tensors of one example, and how they stand side by side in one packed row of `width` numbers.

    Every method of ModelKeep takes one tensor `(n, width)`. Whole numbers below 2**24 are exact in float32, so packing
    loses nothing.

    >>> nest = Nest((Leaf("input_ids", (3,), "token", 100), Leaf("attention_mask", (3,), "mask")))
    >>> x = nest.pack({"input_ids": torch.tensor([[7, 8, 9]]), "attention_mask": torch.tensor([[1, 1, 0]])})
    >>> x.tolist()
    [[7.0, 8.0, 9.0, 1.0, 1.0, 0.0]]
    >>> nest.unpack(x)["input_ids"].tolist()
    [[7, 8, 9]]
    """

    leaves: tuple[Leaf, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "leaves", tuple(self.leaves))
        if not self.leaves or len(set(self.names)) != len(self.leaves):
            raise InputError(f"A nest needs one or more leaves with different names. Got {', '.join(self.names)}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the leaves, in the order in which they are packed."""
        return tuple(leaf.name for leaf in self.leaves)

    @cached_property
    def width(self) -> int:
        """How many numbers a packed example holds."""
        return sum(leaf.width for leaf in self.leaves)

    @cached_property
    def _columns(self) -> dict[str, slice]:
        ends = list(accumulate((leaf.width for leaf in self.leaves), initial=0))
        return {leaf.name: slice(*ends[i : i + 2]) for i, leaf in enumerate(self.leaves)}

    def columns(self, name: str) -> slice:
        """Where a leaf stands in the packed row."""
        self.leaf(name)
        return self._columns[name]

    def leaf(self, name: str) -> Leaf:
        """The leaf of that name."""
        found = next((leaf for leaf in self.leaves if leaf.name == name), None)
        if found is None:
            raise InputError(f"The input has no leaf '{name}'. It has: {', '.join(self.names)}.")
        return found

    @property
    def tokens(self) -> Leaf | None:
        """The first leaf of token ids, if there is one."""
        return next((leaf for leaf in self.leaves if leaf.kind == "token"), None)

    def pack(self, tensors: Mapping[str, Any]) -> torch.Tensor:
        """The examples as one tensor `(n, width)` of float32, from a tensor `(n, *shape)` for each leaf."""
        if set(tensors) != set(self.names):
            raise InputError(
                f"The input is made of {', '.join(self.names)}. Got {', '.join(map(str, tensors)) or 'nothing'}."
            )
        given = {leaf.name: torch.as_tensor(tensors[leaf.name]) for leaf in self.leaves}
        n = len(next(iter(given.values())))
        for leaf in self.leaves:
            if tuple(given[leaf.name].shape) != (n, *leaf.shape):
                wanted = ", ".join(map(str, (n, *leaf.shape)))
                raise InputError(
                    f"'{leaf.name}' must have shape ({wanted}), as the first leaf has {n} examples. "
                    f"Got {tuple(given[leaf.name].shape)}."
                )
            if n:
                leaf.check(given[leaf.name], "The values")
        return torch.cat([given[leaf.name].reshape(n, leaf.width).float() for leaf in self.leaves], dim=1)

    def unpack(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """A tensor `(n, *shape)` for each leaf: real ones keep their gradient, all others become int64."""
        parts = {leaf.name: x[:, self._columns[leaf.name]].reshape(-1, *leaf.shape) for leaf in self.leaves}
        return {
            leaf.name: parts[leaf.name] if leaf.kind == "real" else parts[leaf.name].round().long()
            for leaf in self.leaves
        }

    def check(self, x: torch.Tensor) -> None:
        """Refuse packed examples `(n, width)` whose tokens, masks or integers are none."""
        for leaf in self.leaves:
            leaf.check(x[:, self._columns[leaf.name]], "The packed values")

    def free(self) -> torch.Tensor | None:
        """True where a ball attack may change the packed row `(width,)`: at real leaves. None: everywhere."""
        if all(leaf.kind == "real" for leaf in self.leaves):
            return None
        free = torch.zeros(self.width, dtype=torch.bool)
        for leaf in self.leaves:
            free[self._columns[leaf.name]] = leaf.kind == "real"
        return free

    def draw(self, n: int, bounds: tuple[float, float] | None, generator: torch.Generator) -> torch.Tensor:
        """Packed examples to try a network on: tokens in range, masks of ones, real values within the bounds."""
        low, high = bounds if bounds is not None else (-1.0, 1.0)
        drawn = []
        for leaf in self.leaves:
            noise = torch.rand(n, leaf.width, generator=generator)
            if leaf.kind == "real":
                drawn.append(low + (high - low) * noise)
            elif leaf.kind == "mask":
                drawn.append(torch.ones(n, leaf.width))
            else:
                drawn.append((noise * (leaf.size or 1)).floor().clamp(max=(leaf.size or 1) - 1))
        return torch.cat(drawn, dim=1)
