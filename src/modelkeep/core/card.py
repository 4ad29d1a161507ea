"""Card: what one must know about a model beside its weights, as plain values that fit in a file's header."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

import torch
from torch import nn

from modelkeep.core.errors import InputError
from modelkeep.core.guarantee import Guarantee
from modelkeep.core.nest import Nest

Layout = Literal["channels-first", "channels-last"]
"""In which order a module takes the sizes of a picture; data here have the channels first."""


@dataclass(frozen=True)
class Preprocessing:
    """What the network does to an input first: subtract `mean`, divide by `std`, per channel or feature.

    Then the sizes come in the order of `layout`; in an input here, the channels are always first.

    Everything in ModelKeep lives in the owner's units (a radius of 8/255 is 8 grey levels); the normalisation
    is a part of the model, so it is neither forgotten nor applied twice.
    """

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    layout: Layout = field(default="channels-first", metadata={"later": True})

    def __post_init__(self) -> None:
        finite = all(math.isfinite(number) for number in (*self.mean, *self.std))
        if len(self.mean) != len(self.std) or not finite or any(s <= 0 for s in self.std):
            raise InputError(f"Preprocessing needs one positive std per mean. Got {self.mean} and {self.std}.")

    def module(self, input_shape: Sequence[int]) -> nn.Module:
        """The normalisation as a module for inputs `(n, *input_shape)`; a copy where there is none."""
        if self.layout == "channels-last":
            if len(input_shape) < 2:
                raise InputError(f"Only an input with channels can have them last. Got the shape {tuple(input_shape)}.")
            return nn.Sequential(replace(self, layout="channels-first").module(input_shape), _ChannelsLast())
        if not self.mean:
            return _Copy()
        if len(self.mean) not in (1, input_shape[0]):
            raise InputError(
                f"Preprocessing has {len(self.mean)} means, but an input of shape {tuple(input_shape)} has "
                f"{input_shape[0]} channels."
            )
        return _Normalise(self, len(input_shape))


@dataclass(frozen=True)
class Card:
    """Input shape, class names, preprocessing, and the range `bounds` that inputs lie in (None: no range).

    `architecture` and `arguments` say how to build the module again: `package.module:factory(**arguments)`. `inputs`
    says what is packed in an input, where the module takes several tensors by name. `guarantee` is what a private
    training promised; any further training ends it.

    A field that was added after 0.1.0 is marked as `later`: at its default it is neither written nor hashed, so that
    the fingerprints of earlier models stay.
    """

    input_shape: tuple[int, ...]
    classes: tuple[str, ...]
    preprocessing: Preprocessing = Preprocessing()
    bounds: tuple[float, float] | None = (0.0, 1.0)
    architecture: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    inputs: Nest | None = field(default=None, metadata={"later": True})
    guarantee: Guarantee | None = field(default=None, metadata={"later": True})

    def __post_init__(self) -> None:
        if not self.input_shape or any(size < 1 for size in self.input_shape):
            raise InputError(
                f"The shape of one input needs one or more sizes, each at least 1. Got {self.input_shape}."
            )
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            raise InputError(f"A classifier needs two or more classes with different names. Got {self.classes}.")
        if self.bounds is not None and not -math.inf < self.bounds[0] < self.bounds[1] < math.inf:
            raise InputError(
                f"The bounds of an input are two finite numbers (low, high) with low < high. Got {self.bounds}."
            )
        if self.inputs is not None:
            self._check_nest(self.inputs)

    def _check_nest(self, nest: Nest) -> None:
        if self.input_shape != (nest.width,):
            raise InputError(f"The packed input has shape ({nest.width},). Got input_shape {self.input_shape}.")
        if self.bounds is not None and nest.free() is not None:
            raise InputError(f"Token ids, masks and integers have no bounds. Got bounds {self.bounds}; give None.")
        if self.preprocessing.mean:
            raise InputError("Preprocessing works on an input of one tensor. Let the module normalise its own inputs.")

    def told(self) -> dict[str, Any]:
        """The card as plain values, to be written and hashed."""
        return leave_out_defaults(asdict(self))


def leave_out_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a card without the `later` fields that are at their default."""
    told = _without_defaults(Card, values)
    if isinstance(told.get("preprocessing"), Mapping):
        told["preprocessing"] = _without_defaults(Preprocessing, told["preprocessing"])
    return told


def _without_defaults(kind: type[Card | Preprocessing], values: Mapping[str, Any]) -> dict[str, Any]:
    later = {each.name: each.default for each in fields(kind) if each.metadata.get("later")}
    return {name: value for name, value in values.items() if name not in later or value != later[name]}


def class_names(classes: Sequence[str] | int) -> tuple[str, ...]:
    """The names of the classes; a mere number of them stands for "0", "1", ….

    >>> class_names(3)
    ('0', '1', '2')
    """
    return tuple(map(str, range(classes))) if isinstance(classes, int) else tuple(classes)


def shape_of(input_shape: Sequence[int] | None, inputs: Nest | None) -> tuple[int, ...]:
    """The shape of one input: as it was given, or that of the packed tensors."""
    if input_shape is not None:
        return tuple(input_shape)
    if inputs is None:
        raise InputError(
            "A model needs the shape of one input (input_shape=…), or its tensors by name (inputs=Nest(…))."
        )
    return (inputs.width,)


def in_layout(shape: Sequence[int], layout: Layout | None) -> tuple[int, ...]:
    """A shape `(channels, …)` as a module of that layout takes it.

    >>> in_layout((3, 32, 64), "channels-last")
    (32, 64, 3)
    """
    return (*shape[1:], shape[0]) if layout == "channels-last" else tuple(shape)


def from_layout(shape: Sequence[int], layout: Layout | None) -> tuple[int, ...]:
    """The shape `(channels, …)` of what a module of that layout takes.

    >>> from_layout((32, 64, 3), "channels-last")
    (3, 32, 64)
    """
    return (shape[-1], *shape[:-1]) if layout == "channels-last" else tuple(shape)


class _ChannelsLast(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.movedim(1, -1)


class _Copy(nn.Module):
    """The same values in memory of their own: a network that begins with an in-place layer writes into its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clone()


class _Normalise(nn.Module):
    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, preprocessing: Preprocessing, dimensions: int) -> None:
        super().__init__()
        shape = (-1,) + (1,) * (dimensions - 1)
        # Exact as given; the model then rounds them to the type of its weights.
        self.register_buffer("mean", torch.tensor(preprocessing.mean, dtype=torch.float64).view(shape))
        self.register_buffer("std", torch.tensor(preprocessing.std, dtype=torch.float64).view(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean) / self.std
