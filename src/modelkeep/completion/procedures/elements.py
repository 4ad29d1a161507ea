"""Elements: train some elements of a parameter, and leave the others as they are to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.utils import parametrize

from modelkeep.completion.part import Part


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
    missing = {name: chosen for name, chosen in part.missing(module).items() if chosen.any()}
    owners = [(module.get_submodule(name.rpartition(".")[0]), name) for name in missing]
    refreshed = [layer.register_forward_pre_hook(_renew) for layer in module.modules() if isinstance(layer, nn.RNNBase)]
    try:
        names = []
        for layer, name in owners:
            path, _, own = name.rpartition(".")
            parameter = getattr(layer, own)
            parametrize.register_parametrization(layer, own, _Elements(parameter, missing[name]))
            names.append(f"{path}.parametrizations.{own}.original".lstrip("."))
        module.eval()  # what was added begins in train mode
        yield tuple(names)
    finally:
        for layer, name in owners:
            own = name.rpartition(".")[2]
            if parametrize.is_parametrized(layer, own):
                parametrize.remove_parametrizations(layer, own)
        for hook in refreshed:
            hook.remove()
        for layer in module.modules():
            if isinstance(layer, nn.RNNBase):
                _renew(layer)


def _renew(layer: nn.Module, *_: object) -> None:
    """A recurrent layer keeps a list of its parameters of its own, which must follow theirs."""
    assert isinstance(layer, nn.RNNBase)
    layer._flat_weights = [getattr(layer, name) for name in layer._flat_weights_names]
