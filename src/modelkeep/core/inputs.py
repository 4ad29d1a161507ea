"""Inputs: the checks that keep a wrong input, or data of another model, from giving a plausible answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from modelkeep.core.card import Card, class_names
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, join_names
from modelkeep.core.examples import read
from modelkeep.core.nest import Nest


def check_inputs(
    x: torch.Tensor | Mapping[str, Any], card: Card, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """`x` as one tensor of the model's type on its device, if the model can take it."""
    nest = card.inputs
    if nest is not None and isinstance(x, Mapping):
        x = nest.pack(x)
    if not isinstance(x, torch.Tensor):
        wanted = "a torch tensor" if nest is None else f"a torch tensor or a mapping with {', '.join(nest.names)}"
        raise InputError(f"Inputs must be {wanted}. Got {type(x).__name__}.")
    if tuple(x.shape[1:]) != card.input_shape:
        wanted = ", ".join(("n", *map(str, card.input_shape)))
        raise InputError(f"Inputs must have shape ({wanted}). Got {tuple(x.shape)}.{_advice(nest is not None)}")
    if x.dtype not in (dtype, torch.float32):
        raise InputError(f"Inputs must be {dtype}, as the model's weights are. Got {x.dtype}.")
    x = read(x)
    assert isinstance(x, torch.Tensor)
    if len(x) == 0:
        raise InputError("Inputs must hold at least one example. Got none.")
    if not torch.isfinite(x).all():
        bad = int((~torch.isfinite(x)).flatten(1).any(dim=1).sum())
        raise InputError(f"Inputs must be finite. Got NaN or infinity in {bad} of {len(x)} examples.")
    if nest is not None:
        nest.check(x)
    return x.to(device, dtype)


def require_fit(card: Card, data: Data) -> None:
    """Refuse data that the model was not made for: another shape, other classes, or classes in another order."""
    if len(data) == 0:
        raise InputError(f"'{data.name}' has no examples.")
    if data.input_shape != card.input_shape:
        raise InputError(
            f"The model takes inputs of shape {card.input_shape}, but '{data.name}' has {data.input_shape}."
            f"{_advice(card.inputs is not None)}"
        )
    if card.inputs is not None and data.nest is not None and _places(data.nest) != _places(card.inputs):
        raise InputError(
            f"The model's inputs are packed as {_places(card.inputs)}, but those of '{data.name}' as "
            f"{_places(data.nest)}. They must be the same, in the same order."
        )
    numbered = card.classes == class_names(len(card.classes))  # without names of their own, they may mean any
    if len(data.classes) != len(card.classes) or not (numbered or data.classes == card.classes):
        raise InputError(
            f"The model's classes are {join_names(card.classes)}, but those of '{data.name}' are "
            f"{join_names(data.classes)}. They must be the same, in the same order."
        )


def _places(nest: Nest) -> list[tuple[str, tuple[int, ...]]]:
    return [(leaf.name, leaf.shape) for leaf in nest.leaves]


def _advice(packed: bool) -> str:
    return " Pack the tensors by name: model.nest.pack({…})." if packed else ""


def draw_probe(card: Card, dtype: torch.dtype, device: torch.device, n: int = 2) -> torch.Tensor:
    """`n` inputs of seeded noise within the bounds, to try a network on."""
    generator = torch.Generator().manual_seed(0)
    if card.inputs is not None:
        return card.inputs.draw(n, card.bounds, generator).to(device, dtype)
    low, high = card.bounds if card.bounds is not None else (-1.0, 1.0)
    noise = torch.rand(n, *card.input_shape, generator=generator, dtype=dtype)
    return (low + (high - low) * noise).to(device)
