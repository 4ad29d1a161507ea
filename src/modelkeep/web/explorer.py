"""Explorer: one example explained at one slice for one quantity over one distribution, fast enough to be clicked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from shlex import quote

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.registry import declaration_of
from modelkeep.explain import (
    AgainstAll,
    Channel,
    ClassScore,
    Conductance,
    Contrast,
    DataSet,
    Exemplars,
    Explained,
    Explainer,
    FindExemplars,
    Influence,
    IntegratedGradients,
    PredictedScore,
    Quantity,
    Saliency,
    SmoothGrad,
    Unit,
)
from modelkeep.explain.explainers import spread
from modelkeep.explain.orientation import oriented_slice
from modelkeep.explain.places import last_inner_place
from modelkeep.explain.units import units_of
from modelkeep.web.exhibits import PATIENCE, Lookout, kind_of
from modelkeep.web.network import INPUT, NetworkPlace, read_network

OTHERS = "*"
"""In place of the class that another one is set against: all other classes."""
CLASS = "class"
"""The distribution that has no point of its own: all examples with the label of the chosen one."""
MOST_UNITS = 8
EXEMPLARS = 5
_AT_ONCE = 128  # units whose exemplars are searched for together
DISTRIBUTIONS: dict[str, tuple[str, type[Explainer] | None]] = {
    "line": ("a line from a baseline (integrated gradients)", IntegratedGradients),
    "point": ("the point itself (saliency)", Saliency),
    "gaussian": ("noise around the point (SmoothGrad)", SmoothGrad),
    "path": ("the line, followed through the slice (conductance)", Conductance),
    CLASS: ("all examples with its label", None),
}


@dataclass(frozen=True)
class UnitLine:
    """A unit of the slice: its influence on the quantity, and how active it is, on the explained example."""

    index: int
    name: str
    influence: float
    activation: float


@dataclass(frozen=True)
class Exemplar:
    """An example by its number in the data, and how active a unit is on it."""

    index: int
    activation: float


@dataclass(frozen=True)
class Explanation:
    """One example, explained where people look (the input, or the words of a text) and at the chosen slice."""

    seen: Explained | None
    at_slice: Explained
    units: tuple[UnitLine, ...]
    per: str


class Explorer:
    """The explanations of one model on its data. What was computed once is kept; the caller holds the model's lock."""

    def __init__(self, model: Model, data: Data) -> None:
        self.model, self.data = model, data
        self.kind = kind_of(data)
        self.lookout = Lookout(model, data)
        self.network: tuple[NetworkPlace, ...] = read_network(model)
        self._places = frozenset(model.slices())
        self.visible_place = Saliency().usual_place(model)  # the input, or the embedding of a text
        # A line takes 50 gradients, here and at the slice; a gradient costs about three answers.
        self.usual_distribution = "line" if 300 * self.lookout.operations < PATIENCE else "point"
        self.usual_place = last_inner_place(model) or self.visible_place
        self.spread = spread(data.x) if data.x.ndim == 2 and self.kind == "table" else None
        self.explain = lru_cache(maxsize=128)(self._explain)
        self.explain_unit = lru_cache(maxsize=128)(self._explain_unit)
        self._meet = lru_cache(maxsize=64)(self._search)
        self._shape = lru_cache(maxsize=None)(self._shape_at)
        self._suited = lru_cache(maxsize=len(DISTRIBUTIONS))(self._suit)

    def quantity(self, index: int, why: str, against: str) -> Quantity:
        """What is explained: the class `why` (else the answer) by itself, or set against another or all `OTHERS`."""
        if against == OTHERS:
            return AgainstAll(why or None)
        if not against:
            return ClassScore(why) if why else PredictedScore()
        return Contrast(why or self._answer(index), against)

    def command(self, index: int, why: str, against: str, place: str, distribution: str, seed: int) -> str:
        """The command that explains the same; empty where only Python can."""
        _, explainer = DISTRIBUTIONS[distribution]
        if explainer is None:
            return ""
        chosen = why or (self._answer(index) if against not in ("", OTHERS) else "")
        told = [f"modelkeep explain MODEL --data DATA --index {index}"]
        told += [f"--why {quote(chosen)}"] if chosen else []
        told += [f"--rather-than {quote(against)}"] if against not in ("", OTHERS) else []
        told += [f"--slice {place}", f"--method {_method_name(explainer)}", f"--seed {seed}"]
        return " ".join(told)

    def _explain(self, index: int, place: str, why: str, against: str, distribution: str, seed: int = 0) -> Explanation:
        """Explain example `index` of the data."""
        self._require(index, place, distribution)
        quantity = self.quantity(index, why, against)
        at_slice = self._run(index, place, quantity, distribution, seed)
        seen: Explained | None = at_slice
        if place != self.visible_place:
            seen = self._run(index, self.visible_place, quantity, distribution, seed)
        per_unit = units_of(at_slice.influence, place)[0]
        table = place == INPUT and self.spread is not None
        if table and self.spread is not None:
            per_unit = per_unit * self.spread
        pixels = place == self.visible_place and not table  # a pixel or a word is no unit to name
        units = () if pixels else self._strongest(at_slice, per_unit)
        per = "standard deviation of the feature" if table else "unit of its activation"
        return Explanation(seen, at_slice, units, per)

    def _run(self, index: int, place: str, quantity: Quantity, distribution: str, seed: int) -> Explained:
        if distribution == CLASS:
            label = self.data.classes[int(self.data.y[index])]
            method = Influence(slice=place, quantity=quantity, distribution=DataSet(of=label))
            return method(self.model, self.lookout.data, seed=seed)
        ready = replace(self._suited(distribution), slice=place, quantity=quantity)
        return ready(self.model, self.data.take([index]), seed=seed)

    def _suit(self, distribution: str) -> Explainer:
        _, explainer = DISTRIBUTIONS[distribution]
        assert explainer is not None
        return explainer().suit(self.model, self.data)

    def _strongest(self, found: Explained, influence: torch.Tensor) -> tuple[UnitLine, ...]:
        active = found.activation[0]
        active = active.flatten(1).mean(dim=1) if active.ndim == 3 else active.flatten()
        # As on the page of `modelkeep explain`: influence alone would put units first that are never active.
        table = found.slice == INPUT and self.spread is not None
        strength = influence if table else found.comparable()[0][0]
        order = strength.abs().argsort(descending=True, stable=True)[:MOST_UNITS].tolist()
        return tuple(UnitLine(i, found.unit_name(i), float(influence[i]), float(active[i])) for i in order)

    def exemplars(self, place: str, units: tuple[int, ...], seed: int = 0) -> tuple[tuple[Exemplar, ...], ...]:
        """For each of the units, the examples that activate it most, of those that are looked at."""
        if place == INPUT:
            raise InputError("The input stands for itself: choose a slice inside the network for exemplars.")
        self._require(self.lookout.index[0], place, "point")
        count = _units_in(self._shape(place))
        # Of a small slice all units at once: the next example will ask for others.
        searched = tuple(range(count)) if count <= _AT_ONCE else units
        found = self._meet(place, searched, seed)
        rows = [searched.index(unit) for unit in units]
        return tuple(
            tuple(
                Exemplar(self.lookout.index[number], activation)
                for number, activation in zip(found.index[row].tolist(), found.activation[row].tolist(), strict=True)
            )
            for row in rows
        )

    def _search(self, place: str, units: tuple[int, ...], seed: int) -> Exemplars:
        return FindExemplars(slice=place, units=units, count=EXEMPLARS)(self.model, self.lookout.data, seed=seed)

    def _explain_unit(self, index: int, place: str, unit: int, distribution: str, seed: int = 0) -> Explained:
        """What in the example makes one unit of the slice active."""
        self._require(index, place, distribution)
        if place == INPUT:
            raise InputError("Choose a unit of a slice inside the network.")
        shape = self._shape(place)
        if not 0 <= unit < _units_in(shape):
            raise bad_parameter("explain_unit", "unit", f"one of those at '{place}'", unit)
        quantity: Quantity
        if len(shape) == 3:
            quantity = Channel(place, unit)
        else:
            position = torch.unravel_index(torch.tensor(unit), shape)
            quantity = Unit(place, tuple(int(i) for i in position))
        return self._run(index, self.visible_place, quantity, distribution, seed)

    def _shape_at(self, place: str) -> tuple[int, ...]:
        with torch.no_grad():
            return tuple(oriented_slice(self.model, place).h(self.model.probe()).value.shape[1:])

    def _answer(self, index: int) -> str:
        return self.model.classes[int(self.model.predict(self.data.rows([index]))[0])]

    def _require(self, index: int, place: str, distribution: str) -> None:
        if not 0 <= index < len(self.data):
            raise InputError(f"There are examples 0 to {len(self.data) - 1}. Got {index}.")
        if distribution not in DISTRIBUTIONS:
            raise bad_parameter("explain", "distribution", f"one of {', '.join(DISTRIBUTIONS)}", distribution)
        if place not in self._places:
            raise InputError(f"This network has no place '{place}' to look at. Choose one of its graph.")


def _units_in(shape: tuple[int, ...]) -> int:
    """Channels of a feature map; else all numbers."""
    return shape[0] if len(shape) == 3 else prod(shape)


def _method_name(explainer: type[Explainer]) -> str:
    declared = declaration_of(explainer)
    assert declared is not None
    return declared.name
