"""The features of a network at a slice, and the linear head on top of the last of them (Leino2022, section 9.3)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.examples import in_parts, rows_at_once
from modelkeep.core.model import Model

BATCH = 512


@dataclass(frozen=True, eq=False)
class Head:
    """The plain linear layer that a network ends in: logits = features @ weight.T + bias."""

    name: str
    weight: torch.Tensor
    bias: torch.Tensor | None


def find_head(model: Model) -> Head | None:
    """The `nn.Linear` whose result is the network's own, or None."""
    modules = dict(model.module.named_modules())
    with torch.no_grad(), _record_layers([m for m in modules.values() if type(m) is nn.Linear]) as seen:
        logits = model.forward(model.probe())
    for name, module in modules.items():
        # Called twice, its features would be two different ones.
        if len(seen.get(module, ())) == 1 and torch.equal(seen[module][0][1], logits):
            assert isinstance(module, nn.Linear)
            return Head(name, module.weight.detach(), None if module.bias is None else module.bias.detach())
    return None


def require_head(model: Model) -> Head:
    """The linear head, or the error that says why there is none."""
    head = find_head(model)
    if head is None:
        raise ModelError(
            "Mitigation needs a network whose logits come from one plain torch.nn.Linear layer at its end, called "
            f"once. This {type(model.module).__name__} ends otherwise: write its end as such a layer."
        )
    return head


def features_at(model: Model, data: Data, slice: str | None) -> tuple[str, torch.Tensor, torch.Tensor]:
    """The name of the slice, its features `(n, d)` and the logits `(n, classes)`; the model is asked once per example.

    With `slice=None`, the features are what the linear head sees, or the input where there is no such head.
    """
    model.require_fit(data)
    size = rows_at_once(data.input_shape, BATCH)
    head = find_head(model) if slice is None else None
    if head is not None:
        layer = model.module.get_submodule(head.name)
        features, logits = [], []
        for part in in_parts(data.x, size):
            with _record_layers([layer]) as seen:
                logits.append(model.logits(part))
            ((before, after),) = seen[layer]
            # What the probe showed holds for the data too: nothing follows the linear layer.
            if before.ndim != 2 or not torch.equal(after, logits[-1]):
                raise ModelError(f"The network's logits are not always those of its linear layer '{head.name}'.")
            features.append(before)
        return f"the input of {head.name or 'the linear layer'}", torch.cat(features), torch.cat(logits)
    place = "input" if slice is None else slice
    cut = model.slice(place)
    with torch.no_grad():
        found = [cut.h(model.check_inputs(part)).value.flatten(1) for part in in_parts(data.x, size)]
    return place, torch.cat(found), torch.cat([model.logits(part) for part in in_parts(data.x, size)])


def with_head(model: Model, head: Head, weight: torch.Tensor, bias: torch.Tensor) -> Model:
    """A copy of the model with other weights in its linear head; the given one is left as it is."""
    module = copy.deepcopy(model.module)
    layer = module.get_submodule(head.name)
    assert isinstance(layer, nn.Linear)
    if layer.bias is None and bias.any():
        raise InputError(
            f"The linear layer '{head.name}' has no bias, which would have to take up the mean of what is removed. "
            "Give the layer a bias (of zeros), and load the weights again."
        )
    with torch.no_grad():
        layer.weight.copy_(weight)
        if layer.bias is not None:
            layer.bias.copy_(bias)
    return Model.from_card(module, model.card, model.device)


@contextmanager
def _record_layers(layers: list[nn.Module]) -> Iterator[dict[nn.Module, list[tuple[torch.Tensor, torch.Tensor]]]]:
    """For the time of the block, write down what goes into the layers and what comes out of them."""
    seen: dict[nn.Module, list[tuple[torch.Tensor, torch.Tensor]]] = {}

    def note(layer: nn.Module, arguments: tuple[Any, ...], result: torch.Tensor) -> None:
        # Cloned, as code such as ReLU(inplace=True) may write into both later.
        seen.setdefault(layer, []).append((arguments[0].detach().clone(), result.detach().clone()))

    handles = [layer.register_forward_hook(note) for layer in layers]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
