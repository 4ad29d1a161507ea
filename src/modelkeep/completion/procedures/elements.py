"""Elements: train some elements of a parameter, and leave the others as they are to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.utils import parametrize

from modelkeep.completion.part import Part
from modelkeep.core.errors import InputError


class _Elements(nn.Module):
    """A parameter made of what is kept and of a vector of missing elements. Optimizers only get to see the vector."""

    kept: torch.Tensor
    index: torch.Tensor

    def __init__(self, parameter: torch.Tensor, missing: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("kept", parameter.detach().clone())
        self.register_buffer("index", missing.flatten().nonzero().flatten())

    def forward(self, elements: torch.Tensor) -> torch.Tensor:
        return self.kept.flatten().index_copy(0, self.index, elements).view_as(self.kept)

    def right_inverse(self, parameter: torch.Tensor) -> torch.Tensor:
        return parameter.flatten()[self.index]


@contextmanager
def only_missing(module: nn.Module, part: Part) -> Iterator[tuple[str, ...]]:
    """For this time the missing elements can be trained on their own; the names that a recipe must train for it.

    Afterwards the module is an ordinary one again, with the elements in their places, also after an exception.
    """
    if part.share == 1:
        yield part.trainable(module)
        return
    missing = {name: chosen for name, chosen in part.missing_elements(module).items() if chosen.any()}
    if not missing:
        raise InputError(f"The share {part.share:g} of each parameter of '{part.name}' is less than an element.")
    owners = {name: module.get_submodule(name.rpartition(".")[0]) for name in missing}
    orders = {layer: list(layer._parameters) for layer in owners.values()}
    recurrent = [layer for layer in module.modules() if isinstance(layer, nn.RNNBase)]
    hooks = [layer.register_forward_pre_hook(_renew) for layer in recurrent]
    try:
        names = []
        for name, layer in owners.items():
            path, _, own = name.rpartition(".")
            parametrize.register_parametrization(layer, own, _Elements(getattr(layer, own), missing[name]))
            names.append(f"{path}.parametrizations.{own}.original".lstrip("."))
        module.eval()  # what was added begins in train mode
        yield tuple(names)
    finally:
        for name, layer in owners.items():
            own = name.rpartition(".")[2]
            if parametrize.is_parametrized(layer, own):
                parametrize.remove_parametrizations(layer, own)
        for layer, order in orders.items():
            layer._parameters.update({own: layer._parameters.pop(own) for own in order})
        for hook in hooks:
            hook.remove()
        for layer in recurrent:
            _renew(layer)


def _renew(layer: nn.Module, *_: object) -> None:
    """A recurrent layer keeps a list of its parameters of its own, which must follow theirs."""
    assert isinstance(layer, nn.RNNBase)
    layer._flat_weights = [getattr(layer, name) for name in layer._flat_weights_names]
