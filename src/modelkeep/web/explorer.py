"""Explorer: one example explained at one slice for one quantity over one distribution, fast enough to be clicked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.model import Model
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
from modelkeep.explain.units import units_of
from modelkeep.web.exhibits import Lookout, kind_of
from modelkeep.web.network import INPUT, NetworkPlace, read_network

OTHERS = "*"
"""In place of the class that another one is set against: all other classes."""
CLASS = "class"
"""The distribution that has no point of its own: all examples with the label of the chosen one."""
MOST_UNITS = 8
EXEMPLARS = 5
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
        self.visible_place = Saliency().usual_place(model)  # the input, or the embedding of a text
        self._spread = spread(data.x) if data.x.ndim == 2 and self.kind == "table" else None
        self.explain = lru_cache(maxsize=128)(self._explain)
        self.exemplars = lru_cache(maxsize=128)(self._exemplars)
        self.explain_unit = lru_cache(maxsize=128)(self._explain_unit)
        self._suited = lru_cache(maxsize=len(DISTRIBUTIONS))(self._suit)

    def quantity(self, index: int, why: str, against: str) -> Quantity:
        """What is explained: the class `why` (else the answer) by itself, or set against another or all `OTHERS`."""
        if against == OTHERS:
            return AgainstAll(why or None)
        if not against:
            return ClassScore(why) if why else PredictedScore()
        return Contrast(why or self._answer(index), against)

    def options(self, index: int, why: str, against: str, place: str, distribution: str, seed: int) -> str:
        """The command that explains the same; empty where only Python can."""
        from shlex import quote

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
        table = place == INPUT and self._spread is not None
        if table and self._spread is not None:
            per_unit = per_unit * self._spread
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
        order = influence.abs().argsort(descending=True, stable=True)[:MOST_UNITS].tolist()
        return tuple(UnitLine(i, found.unit_name(i), float(influence[i]), float(active[i])) for i in order)

    def _exemplars(self, place: str, units: tuple[int, ...], seed: int = 0) -> Exemplars:
        """The examples, of those looked at, that activate these units most; `example_number` names them."""
        if place == INPUT:
            raise InputError("The input stands for itself: choose a slice inside the network for exemplars.")
        self._require(self.lookout.index[0], place, "point")
        return FindExemplars(slice=place, units=units, count=EXEMPLARS)(self.model, self.lookout.data, seed=seed)

    def _explain_unit(self, index: int, place: str, unit: int, distribution: str, seed: int = 0) -> Explained:
        """What in the example makes one unit of the slice active."""
        self._require(index, place, distribution)
        shape = next((each.shape for each in self.network if each.name == place), None)
        if place == INPUT or shape is None:
            raise InputError("Choose a unit of a slice inside the network.")
        if not 0 <= unit < (shape[0] if len(shape) == 3 else prod(shape)):
            raise bad_parameter("explain_unit", "unit", f"one of those at '{place}'", unit)
        quantity: Quantity
        if len(shape) == 3:
            quantity = Channel(place, unit)
        else:
            position = torch.unravel_index(torch.tensor(unit), shape)
            quantity = Unit(place, tuple(int(i) for i in position))
        return self._run(index, self.visible_place, quantity, distribution, seed)

    def example_number(self, looked_at: int) -> int:
        """The number in the data of one of the examples that are looked at."""
        return self.lookout.index[looked_at]

    def _answer(self, index: int) -> str:
        return self.model.classes[int(self.model.predict(self.data.rows([index]))[0])]

    def _require(self, index: int, place: str, distribution: str) -> None:
        if not 0 <= index < len(self.data):
            raise InputError(f"There are examples 0 to {len(self.data) - 1}. Got {index}.")
        if distribution not in DISTRIBUTIONS:
            raise bad_parameter("explain", "distribution", f"one of {', '.join(DISTRIBUTIONS)}", distribution)
        if place not in {each.name for each in self.network}:
            raise InputError(f"This network has no place '{place}' to look at. Choose one of its graph.")


def _method_name(explainer: type[Explainer]) -> str:
    from modelkeep.core.registry import declaration_of

    declared = declaration_of(explainer())
    assert declared is not None
    return declared.name
