"""Quantities of interest: what is to be explained, as a number per example (Leino2022, section 3.2.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.slices import Place

Score = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Maps logits `(n, classes)` and the labels `(n,)` predicted for the explained points to one number each, `(n,)`.

The labels are handed in because a distribution of interest leaves the explained point: on the line from a baseline,
"the predicted class" still means the class of the point, not the class of wherever the line has come to. The score of
a quantity with a `place` is handed the value there, `(n, ...)`, instead of the logits.
"""


class Quantity(Protocol):
    """Anything that can be explained. `score` looks the names up, so that a wrong one is refused before the work.

    `place` is where in the network the quantity is read; None is its output.
    """

    @property
    def place(self) -> Place | None: ...
    def score(self, model: Model) -> Score: ...


@dataclass(frozen=True)
class _OfOutput:
    """What the quantities of the logits share."""

    @property
    def place(self) -> Place | None:
        return None


@declare("quantity", "predicted-score", kw_only=False)
class PredictedScore(_OfOutput):
    """The logit of the class that the model predicts for each explained point."""

    def score(self, model: Model) -> Score:
        return lambda logits, predicted: logits.gather(1, predicted[:, None])[:, 0]

    def __str__(self) -> str:
        return "predicted class"


@declare("quantity", "class-score", kw_only=False)
class ClassScore(_OfOutput):
    """The logit of one class: why `name`?"""

    name: str = setting("The class.")

    def score(self, model: Model) -> Score:
        label = model.class_index(self.name)
        return lambda logits, _: logits[:, label]

    def __str__(self) -> str:
        return f"class '{self.name}'"


@declare("quantity", "contrast", kw_only=False)
class Contrast(_OfOutput):
    """The difference of two logits: why `name` rather than `against`?"""

    name: str = setting("The class.")
    against: str = setting("The other class.")

    def score(self, model: Model) -> Score:
        label, other = model.class_index(self.name), model.class_index(self.against)
        if label == other:
            raise bad_parameter("Contrast", "against", f"another class than '{self.name}'", self.against)
        return lambda logits, _: logits[:, label] - logits[:, other]

    def __str__(self) -> str:
        return f"class '{self.name}' rather than '{self.against}'"


@declare("quantity", "against-all", kw_only=False)
class AgainstAll(_OfOutput):
    """The logit of one class minus the mean of all others: why `name` rather than anything else?

    Without a name it is the class that the model predicts for each explained point.
    """

    name: str | None = setting("The class; else the predicted one.", default=None)

    def score(self, model: Model) -> Score:
        one = (PredictedScore() if self.name is None else ClassScore(self.name)).score(model)
        others = len(model.classes) - 1

        def against_all(logits: torch.Tensor, predicted: torch.Tensor) -> torch.Tensor:
            own = one(logits, predicted)
            return own - (logits.sum(dim=1) - own) / others

        return against_all

    def __str__(self) -> str:
        name = "predicted class" if self.name is None else f"class '{self.name}'"
        return f"{name} rather than the others"


@declare("quantity", "of-logits", kw_only=False)
class OfLogits(_OfOutput):
    """Any differentiable function of the logits, `(n, classes)` to `(n,)`."""

    name: str = setting("What results call it.")
    function: Callable[[torch.Tensor], torch.Tensor] = setting("The function.")

    def score(self, model: Model) -> Score:
        return lambda logits, _: self.function(logits)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class _OfInner:
    """What the quantities of an inner place share."""

    at: str = setting("The place: a name from `model.slices()`.")
    index: int | tuple[int, ...] = setting("A number, or one number per axis of the value there.")
    call: int | None = setting("Which call of a module that is called more than once.", default=None)

    @property
    def place(self) -> Place | None:
        return Place(self.at, self.call)


@declare("quantity", "unit", kw_only=False)
class Unit(_OfInner):
    """One unit of the value at an inner place."""

    def score(self, model: Model) -> Score:
        index = self.index if isinstance(self.index, tuple) else (self.index,)

        def unit(value: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            if value.ndim != len(index) + 1:
                hint = " Channel(…) takes all positions of one channel." if value.ndim > 2 else ""
                raise InputError(
                    f"A unit at '{self.at}' needs {value.ndim - 1} numbers, for a value of shape "
                    f"{tuple(value.shape[1:])}. Got {self.index}.{hint}"
                )
            _check_index("Unit", self.at, index, value.shape[1:])
            for i in index:
                value = value[:, i]
            return value

        return unit

    def __str__(self) -> str:
        return f"unit {self.index} of '{self.at}'"


@declare("quantity", "channel", kw_only=False)
class Channel(_OfInner):
    """The mean of one channel of the feature map at an inner place, over all positions."""

    index: int = setting("The channel.")  # type: ignore[misc]  # it stays where the base has it, before `call`

    def score(self, model: Model) -> Score:
        def channel(value: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            if value.ndim < 3:
                raise InputError(f"'{self.at}' has units, not channels: its value has shape {tuple(value.shape[1:])}.")
            _check_index("Channel", self.at, (self.index,), value.shape[1:2])
            return value[:, self.index].flatten(1).mean(dim=1)

        return channel

    def __str__(self) -> str:
        return f"channel {self.index} of '{self.at}'"


@declare("quantity", "of-inner", kw_only=False)
class OfInner:
    """Any differentiable function of the value at an inner place, `(n, ...)` to `(n,)`."""

    name: str = setting("What results call it.")
    at: str = setting("The place: a name from `model.slices()`.")
    function: Callable[[torch.Tensor], torch.Tensor] = setting("The function.")
    call: int | None = setting("Which call of a module that is called more than once.", default=None)

    @property
    def place(self) -> Place | None:
        return Place(self.at, self.call)

    def score(self, model: Model) -> Score:
        return lambda value, _: self.function(value)

    def __str__(self) -> str:
        return self.name


def _check_index(function: str, place: str, index: tuple[int, ...], sizes: torch.Size) -> None:
    for i, size in zip(index, sizes, strict=True):
        if not 0 <= i < size:
            raise bad_parameter(function, "index", f"0 to {size - 1} at '{place}'", i)
