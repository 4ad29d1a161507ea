"""Slice: a cut of a network f into g ∘ h at a named place, with whatever passes around that place.

A network is a program, and a slice is a point in its run: right after the named module (or traced operation) has
given its result. `h` is the program up to that point and `g` is the rest. What `g` needs of what `h` has computed is
the cut: the value at the place and, where a skip connection passes around it, the tensors that are carried along.
Nothing is reordered, so `g(h(x))` equals `f(x)` bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.utils import _pytree as pytree

from modelkeep.core.errors import SliceError, bad_parameter
from modelkeep.core.slices.attention import one_path
from modelkeep.core.slices.graphs import Untraceable, identity, traced_halves, traced_places
from modelkeep.core.slices.halves import Halves, Place, unknown_place
from modelkeep.core.slices.hooks import hooked_halves, hooked_places

__all__ = ["Cut", "Place", "Slice", "cut", "one_path", "places"]

INPUT = "input"


@dataclass(frozen=True, eq=False)
class Cut:
    """The tensors of one cut: the `value` at the named place, and what is `carried` around it."""

    value: torch.Tensor
    carried: tuple[Any, ...] = ()

    def replace(self, value: torch.Tensor) -> Cut:
        """The cut with another value at the place and everything around it held as it is."""
        if value.shape != self.value.shape or value.dtype != self.value.dtype:
            raise SliceError(
                f"The value at the cut has shape {tuple(self.value.shape)} and type {self.value.dtype}; it cannot be "
                f"replaced by shape {tuple(value.shape)} and type {value.dtype}."
            )
        return replace(self, value=value)


@dataclass(frozen=True, eq=False, repr=False)
class Slice:
    """`f = g ∘ h`, cut right after the named place. Made by `model.slice(name)`.

    `skip` says what happens to gradients through tensors that pass around the place: "carry" lets them flow (for
    splitting and completing a model), "hold" treats those tensors as constants (for the influence of an inner node).
    With `until`, the program ends at that later place, and `g` gives the value there instead of the logits.
    `traced` is False where torch.fx cannot follow the network: then the cut carries the input itself and `g` computes
    the first half again, which is exact, but needs the parameters of both halves.
    """

    name: str
    call: int
    until: Place | None
    skip: Literal["carry", "hold"]
    halves: Halves
    _structure: pytree.TreeSpec
    _position: int
    _mutated: tuple[bool, ...]
    _mutates_input: bool
    _path: Callable[[], Any]

    @property
    def traced(self) -> bool:
        """Whether the two halves are programs of their own."""
        return self.halves.traced

    @property
    def carries(self) -> tuple[str, ...]:
        """The names of what passes around the place."""
        return self.halves.carries

    @property
    def parameters_h(self) -> dict[str, nn.Parameter]:
        """The parameters that compute the cut, by their names in the network."""
        return self.halves.parameters_before

    @property
    def parameters_g(self) -> dict[str, nn.Parameter]:
        """The parameters that compute the output from the cut. Shared ones are on both sides."""
        return self.halves.parameters_after

    def h(self, x: torch.Tensor) -> Cut:
        """The cut for inputs `x: (n, ...)`, which are left as they are."""
        with self._path():
            place, carried = self.halves.before(x.clone() if self._mutates_input else x)
        leaves, structure = pytree.tree_flatten(place)
        if structure != self._structure:
            raise SliceError(f"'{self.name}' gave {structure} for these inputs, but {self._structure} before.")
        if self.skip == "hold":
            carried = tuple(c.detach() if isinstance(c, torch.Tensor) else c for c in carried)
        value = leaves.pop(self._position)
        return Cut(value, (*leaves, *carried))

    def g(self, cut: Cut) -> torch.Tensor:
        """The network's output (or the value at `until`) from the cut. The cut's tensors are left as they are."""
        count = self._structure.num_leaves - 1
        leaves, carried = list(cut.carried[:count]), cut.carried[count:]
        leaves.insert(self._position, cut.value)
        # Code such as ReLU(inplace=True) right after the cut would write into the caller's tensors.
        kept = [t.clone() if m else t for t, m in zip((*leaves, *carried), self._mutated, strict=True)]
        place = pytree.tree_unflatten(kept[: count + 1], self._structure)
        with self._path():
            return self.halves.after(place, tuple(kept[count + 1 :]))

    def __repr__(self) -> str:
        way = "traced" if self.traced else "hooked"
        around = f", carries {', '.join(self.carries)}" if self.carries else ""
        end = f", until {self.until}" if self.until is not None else ""
        return f"Slice({self.name!r}, call={self.call}{end}, {way}{around}, skip={self.skip!r})"


def cut(
    module: nn.Module,
    name: str,
    probe: torch.Tensor,
    *,
    before: nn.Module | None = None,
    call: int | None = None,
    until: Place | None = None,
    skip: Literal["carry", "hold"] = "carry",
) -> Slice:
    """Cut `module` (in eval mode) right after the place called `name`.

    Args:
        module: The network. `before` is what happens to an input first, as a part of `h`.
        name: A module's name as in `named_modules()`, a traced operation (`add_1`), or "input".
        probe: A few inputs. The slice is run on them, and refused where `g(h(x))` is not exactly `f(x)`.
        call: Which call of a module that is called more than once, from 0.
        until: Where the program ends; None is its end.
        skip: See `Slice`.
    """
    if skip not in ("carry", "hold"):
        raise bad_parameter("slice", "skip", "'carry' or 'hold'", skip)
    before = before if before is not None else nn.Identity()
    end = None if until is None else cut(module, until.name, probe, before=before, call=until.call)
    if name == INPUT:
        _require_steady(module, before, probe)
        return _whole(module, before, end, skip, call)
    with torch.no_grad(), one_path(module)():
        expected = module(before(probe)) if end is None else end.h(probe).value
    place = Place(name, call)
    ways: list[Callable[[], Halves]] = [
        lambda: traced_halves(module, before, place, until, anew=False),
        lambda: traced_halves(module, before, place, until, anew=True),  # the code may have changed since
        lambda: hooked_halves(module, before, place, until, probe),
    ]
    for make in ways:
        try:
            found, output = _probed(make(), module, place, until, skip, probe)
        except Untraceable:
            continue
        if torch.equal(output, expected) and _repeats(found, probe, expected):
            return found
    raise SliceError(
        f"Cutting at '{name}' does not give the network's own output again on a probe. Is the network random in eval "
        "mode, does it give NaN, or does it change its own tensors in place around the cut? Cut at another place."
    )


def places(module: nn.Module, probe: torch.Tensor) -> tuple[str, ...]:
    """Where `module` can be cut, in the order of the run: "input", modules, and operations where it traces."""
    try:
        return (INPUT, *traced_places(module, probe))
    except Untraceable:
        return (INPUT, *hooked_places(module, probe))


# Networks that gave the same output twice, by what they were then: a probe costs as much as explaining a few images.
_STEADY: WeakKeyDictionary[nn.Module, tuple[Any, ...]] = WeakKeyDictionary()


def _require_steady(module: nn.Module, before: nn.Module, probe: torch.Tensor) -> None:
    """Refuse a network that is random in eval mode, or gives NaN: an answer about it would be one draw of many."""
    now = identity(module)
    if _STEADY.get(module) == now:
        return
    with torch.no_grad(), one_path(module)():
        if not torch.equal(*(module(before(probe.clone())) for _ in range(2))):
            raise SliceError(
                "The network gives two different outputs for the same input, or NaN. Is it random in eval mode, such "
                "as by functional.dropout without training=self.training? Are its weights damaged?"
            )
    _STEADY[module] = now


def _whole(module: nn.Module, before: nn.Module, end: Slice | None, skip: Any, call: int | None) -> Slice:
    """The cut at the input: nothing before it, and all of the program after it. There is nothing to get wrong."""
    if call not in (None, 0):
        raise SliceError(f"The input comes once in each pass; there is no call={call}.")
    halves = Halves(
        before=lambda x: (x, ()),
        after=lambda x, carried: module(before(x)) if end is None else end.h(x).value,
        parameters_before={},
        parameters_after=dict(module.named_parameters()) if end is None else end.parameters_h,
        carries=(),
        traced=True,
    )
    until = None if end is None else Place(end.name, end.call)
    # The network may work in place on its input: to copy it always is cheaper than to find out.
    leaf = pytree.tree_flatten(torch.empty(0))[1]
    return Slice(INPUT, 0, until, skip, halves, leaf, 0, (True,), False, one_path(module))


def _probed(
    halves: Halves, module: nn.Module, at: Place, until: Place | None, skip: Any, probe: torch.Tensor
) -> tuple[Slice, torch.Tensor]:
    """Run both halves once, to learn how the value is wrapped and what the second half would overwrite."""
    path = one_path(module)
    x = probe.clone()
    with torch.no_grad(), path():
        place, carried = halves.before(x)
        mutates_input = x._version != 0
        leaves, structure = pytree.tree_flatten(place)
        tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        if not tensors:
            raise unknown_place(at.name, "it gives no tensor", ())
        everything = (*leaves, *carried)
        versions = [t._version if isinstance(t, torch.Tensor) else 0 for t in everything]
        output = halves.after(place, carried)
    mutated = tuple(
        isinstance(t, torch.Tensor) and t._version != version for t, version in zip(everything, versions, strict=True)
    )
    found = Slice(at.name, at.call or 0, until, skip, halves, structure, tensors[0], mutated, mutates_input, path)
    return found, output


def _repeats(found: Slice, probe: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether a cut that must copy what is overwritten gives the network's output too."""
    if not found._mutates_input and not any(found._mutated):
        return True
    with torch.no_grad():
        return torch.equal(found.g(found.h(probe)), expected)
