"""A network at a slice, and proxies of it that learned the attacker's own records (Leino2022, section 8.3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, SliceError
from modelkeep.core.model import Model
from modelkeep.core.slices import INPUT, Cut, Slice
from modelkeep.explain.influence import gradient
from modelkeep.privacy.membership.attack import of_label
from modelkeep.privacy.stack import can_stack, train_stacked
from modelkeep.training import Recipe, Step, fit
from modelkeep.training.fresh_network import copy_untrained

_BATCH = 512


def last_place(model: Model) -> str:
    """The last place with weights above it: what the last layer sees."""
    for name in reversed(model.slices()):
        try:
            if model.slice(name).parameters_g:
                return name
        except SliceError:
            continue
    raise InputError("The network has no weights, so that nothing in it can be compared with a proxy.")


def places_with_weights(model: Model) -> tuple[str, ...]:
    """The places that differ in the weights above them, from the input on; of places that do not, the last one."""
    found: dict[tuple[str, ...], str] = {}
    for name in model.slices():
        try:
            weights = _weights_above(model, name)
        except SliceError:
            continue
        if weights:
            found[weights] = name
    return tuple(found.values())


def places_of(model: Model, names: str | None) -> tuple[str, ...]:
    """The places that a setting names with commas between; by default the last one."""
    if names is None:
        return (last_place(model),)
    return tuple(name.strip() for name in names.split(","))


def cut_at(cutting: Slice, model: Model, data: Data) -> Cut:
    """The values at the slice for all records, and what passes around it."""
    with torch.no_grad():
        parts = [cutting.h(model.check_inputs(x)) for x, _ in data.batches(_BATCH)]
    carried = zip(*(part.carried for part in parts), strict=True)
    return Cut(torch.cat([part.value for part in parts]), tuple(_join(values) for values in carried))


def take(cut: Cut, index: torch.Tensor) -> Cut:
    """The records at `index`."""
    n = len(cut.value)
    return Cut(cut.value[index], tuple(c[index] if _per_record(c, n) else c for c in cut.carried))


@dataclass(frozen=True)
class _FromCut:
    """The cross-entropy of what the part above the slice makes of values that are computed once."""

    cutting: Slice = field(repr=False, compare=False)
    cut: Cut = field(repr=False, compare=False)
    name: str = "cross-entropy above a slice"

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        return cross_entropy(self.cutting.g(take(self.cut, step.index)), y)


def train_proxies(
    model: Model, place: str, data: Data, recipe: Recipe, seeds: Sequence[int], rows: Sequence[torch.Tensor]
) -> list[Slice]:
    """g̃ of algorithm 8.3: the part above the slice, with fresh weights, learned from ĥ(x) of the rows of `data`.

    What is below the slice is the target's own, so that a feature means the same to the proxy as to the target. All
    proxies learn from as many rows. At the input a proxy is a whole network, and they are trained as a stack.
    """
    return [fresh.slice(place) for fresh in _train_networks(model, place, data, recipe, seeds, rows)]


def _train_networks(
    model: Model, place: str, data: Data, recipe: Recipe, seeds: Sequence[int], rows: Sequence[torch.Tensor]
) -> list[Model]:
    networks = [copy_untrained(model, seed) for seed in seeds]
    cuttings = [fresh.slice(place) for fresh in networks]
    if place == INPUT and len(networks) > 1 and can_stack(model, recipe):
        train_stacked(networks, data, torch.stack(list(rows)), recipe, seeds)
    else:
        cut = cut_at(model.slice(place), model, data)
        for fresh, cutting, seed, chosen in zip(networks, cuttings, seeds, rows, strict=True):
            fit(fresh, data.take(chosen), _FromCut(cutting, take(cut, chosen)), recipe, seed=seed)
    for fresh in networks:
        for parameter in fresh.module.parameters():
            parameter.requires_grad_(False)
    return networks


def train_proxies_at(
    model: Model,
    places: Sequence[str],
    data: Data,
    recipe: Recipe,
    seeds: Sequence[Sequence[int]],
    rows: Sequence[torch.Tensor],
) -> list[list[Slice]]:
    """The proxies at each of several places; `seeds[i]` are those of place `i`.

    Between a convolution and its pooling there are no weights: the parts above both are one network. Its proxies are
    trained once, at the later place, and cut at both.
    """
    above = [_weights_above(model, place) for place in places]
    trained: dict[tuple[str, ...], list[Model]] = {}
    for i, weights in reversed(list(enumerate(above))):
        if weights not in trained:
            trained[weights] = _train_networks(model, places[i], data, recipe, seeds[i], rows)
    return [[fresh.slice(place) for fresh in trained[key]] for place, key in zip(places, above, strict=True)]


def _weights_above(model: Model, place: str) -> tuple[str, ...]:
    """The names of the weights above a place; of a network that cannot be traced, the place itself stands for them."""
    cutting = model.slice(place)
    return tuple(sorted(cutting.parameters_g)) if cutting.traced else ("", place)


def logits_of(cutting: Slice, cut: Cut, y: torch.Tensor) -> torch.Tensor:
    """g(z)_y of each record, in float64."""
    with torch.no_grad():
        parts = torch.split(torch.arange(len(y)), _BATCH)
        found = torch.cat([cutting.g(take(cut, part)).cpu().double() for part in parts])
    return of_label(found, y)


def at_zero(cutting: Slice, cut: Cut, y: torch.Tensor) -> torch.Tensor:
    """g(0)_y of each record, in float64: what passes around the slice is held as it is."""
    return logits_of(cutting, cut.replace(torch.zeros_like(cut.value)), y)


def local_weights(cutting: Slice, cut: Cut, y: torch.Tensor, points: int) -> torch.Tensor:
    """The influences `(n, d)` on g_y over the line from zero to z (eq. 8.12); of a linear g, its weights."""
    found = []
    for part in torch.split(torch.arange(len(y)), _BATCH):
        here, labels = take(cut, part), y[part]
        total = torch.zeros_like(here.value)
        for i in range(points):
            sample = here.replace(here.value * ((i + 0.5) / points))
            slope, _ = gradient(cutting, sample, lambda output, own=labels: of_label(output, own.to(output.device)))  # type: ignore[misc]
            total += slope
        found.append((total / points).flatten(1).cpu())
    return torch.cat(found)


def _per_record(carried: Any, n: int) -> bool:
    return isinstance(carried, torch.Tensor) and carried.ndim > 0 and len(carried) == n


def _join(values: Sequence[Any]) -> Any:
    return torch.cat(list(values)) if isinstance(values[0], torch.Tensor) and values[0].ndim > 0 else values[0]
