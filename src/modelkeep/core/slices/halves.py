"""Halves: the two programs that a cut makes of a network, however they were made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from modelkeep.core.errors import Remedy, UnknownPlace, did_you_mean, join_names


@dataclass(frozen=True)
class Place:
    """A name in the network, and which call of it where it is called more than once."""

    name: str
    call: int | None = None

    def __str__(self) -> str:
        return self.name if self.call is None else f"{self.name} (call {self.call})"


@dataclass(frozen=True, eq=False)
class Halves:
    """`before(x)` gives what the place gave (a tensor or a nest of them) and what is carried around it."""

    before: Callable[[torch.Tensor], tuple[Any, tuple[Any, ...]]]
    after: Callable[[Any, tuple[Any, ...]], torch.Tensor]
    parameters_before: dict[str, nn.Parameter]
    parameters_after: dict[str, nn.Parameter]
    carries: tuple[str, ...]
    traced: bool


def first_tensor(returned: Any) -> torch.Tensor:
    """The value of a place that may return a nest, as an LSTM does."""
    return next(leaf for leaf in pytree.tree_leaves(returned) if isinstance(leaf, torch.Tensor))


def which_call(name: str, call: int | None, calls: int) -> int:
    """The call to cut after; a module that is called more than once has no default."""
    if call is None and calls > 1:
        raise UnknownPlace(
            f"'{name}' is called {calls} times in one pass.",
            remedy=Remedy(
                f"Say after which call to cut: call=0 … call={calls - 1}.",
                f"Say after which call to cut: {name}#0 … {name}#{calls - 1}.",
            ),
        )
    chosen = call or 0
    if not 0 <= chosen < calls:
        raise UnknownPlace(f"'{name}' is called {calls} time{'s' * (calls != 1)} in one pass; there is no call={call}.")
    return chosen


def unknown_place(name: str, why: str, known: Iterable[str]) -> UnknownPlace:
    """The error for a place where the network cannot be cut, with the nearest names."""
    names = list(known)
    near = did_you_mean(name, names) or (f" There are: {join_names(names, most=8)}." if names else "")
    return UnknownPlace(
        f"Cannot cut at '{name}': {why}.{near}",
        remedy=Remedy("model.slices() lists all places.", "modelkeep explain --list-slices lists all places."),
    )
