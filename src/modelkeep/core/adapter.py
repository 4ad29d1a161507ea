"""Adapter: the owner's module as one that takes one packed tensor and gives logits. All names stay the owner's."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from modelkeep.core.nest import Nest

# What torch keeps by name in a module. Shared, so that every walk over the adapter sees the owner's own names.
_REGISTRIES = (
    "_parameters",
    "_buffers",
    "_non_persistent_buffers_set",
    "_modules",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class Adapter(nn.Module):
    """Unpacks the input for the owner's module. It stands in the module's place, not around it.

    It shares the module's parameters, buffers and children, so `state_dict()` and `named_modules()` have the owner's
    names, and a slice or a saved file of an adapted model is that of the owner's.
    """

    def __init__(self, owner: nn.Module, inputs: Nest | None) -> None:
        # Before all else, because `training` is the owner's; not an attribute that torch would register as a child.
        object.__setattr__(self, "_owner", owner)
        mode = owner.training
        super().__init__()
        self.training = mode
        for name in _REGISTRIES:
            self.__dict__[name] = owner.__dict__[name]
        self._inputs = inputs

    @property
    def owner(self) -> nn.Module:
        """The module that is adapted."""
        owner: nn.Module = self.__dict__["_owner"]
        return owner

    @property
    def training(self) -> bool:
        """The owner's mode."""
        return self.owner.training

    @training.setter
    def training(self, mode: bool) -> None:
        self.owner.training = mode

    def forward(self, x: torch.Tensor) -> Any:
        """Logits `(n, classes)` of the inputs `(n, *input_shape)`."""
        owner = self.owner
        # A trace knows the parts of the owner, but not the owner; its own hooks, which are rare, need the full call.
        run = owner if owner._forward_hooks or owner._forward_pre_hooks else owner.forward
        return run(x) if self._inputs is None else run(**self._named(self._inputs, x))

    def _named(self, inputs: Nest, x: torch.Tensor) -> dict[str, torch.Tensor]:
        weight = next((p for p in self.parameters() if p.is_floating_point()), None)
        dtype = x.dtype if weight is None else weight.dtype
        parts = inputs.unpack(x)
        return {
            leaf.name: parts[leaf.name].to(dtype) if leaf.kind == "real" else parts[leaf.name] for leaf in inputs.leaves
        }

    def __repr__(self) -> str:
        return f"Adapter({self._inputs}, {self.owner})"


def adapt(module: nn.Module, inputs: Nest | None) -> nn.Module:
    """The module as it is, or an adapter of it where it takes tensors by name.

    A module that has an adapter among its parts, as a copy with a new head does, takes the packed tensor already.
    """
    if inputs is None or any(isinstance(part, Adapter) for part in module.modules()):
        return module
    return Adapter(module, inputs)
