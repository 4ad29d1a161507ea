"""Adapter: the owner's module as one that takes one packed tensor and gives logits. All names stay the owner's."""

from __future__ import annotations

from pathlib import Path
from traceback import extract_tb
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from modelkeep.core.black_box import BlackBox
from modelkeep.core.errors import ModelError
from modelkeep.core.nest import Nest
from modelkeep.core.outputs import LastHead, Output, find_output

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
    """It unpacks the input for the owner's module, and reads the logits from what that gives.

    It stands in the module's place, not around it: it shares the module's parameters, buffers and children, so
    `state_dict()` and `named_modules()` have the owner's names, and a slice or a saved file of an adapted model is that
    of the owner's. Its own attributes are called `adapted_…`, because a part of the owner may well be called `output`.
    """

    def __init__(self, owner: nn.Module, inputs: Nest | None, output: Output) -> None:
        # Before all else, because `training` is the owner's; not an attribute that torch would register as a child.
        object.__setattr__(self, "_adapted_owner", owner)
        mode = owner.training
        super().__init__()
        self.training = mode
        for name in _REGISTRIES:
            self.__dict__[name] = owner.__dict__[name]
        self.adapted_inputs = inputs
        self.adapted_output = output

    @property
    def adapted_owner(self) -> nn.Module:
        """The module that is adapted."""
        owner: nn.Module = self.__dict__["_adapted_owner"]
        return owner

    @property
    def training(self) -> bool:
        """The owner's mode."""
        return self.adapted_owner.training

    @training.setter
    def training(self, mode: bool) -> None:
        self.adapted_owner.training = mode

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits `(n, classes)` of the inputs `(n, *input_shape)`."""
        if not self.adapted_output.undone:
            return self.adapted_output.read(_run(self.adapted_owner, self.adapted_inputs, x), None)
        with LastHead() as seen:
            returned = _run(self.adapted_owner, self.adapted_inputs, x)
        return self.adapted_output.read(returned, seen)

    def __repr__(self) -> str:
        return repr(self.adapted_owner)  # the structure, which a fingerprint is made of; the nest stands in the card


def owner_of(module: nn.Module) -> nn.Module:
    """The module that the user gave, where an adapter stands in its place."""
    return module.adapted_owner if isinstance(module, Adapter) else module


def adapt(module: nn.Module, inputs: Nest | None, probe: torch.Tensor, classes: int) -> nn.Module:
    """The module as it is, or an adapter of it where it takes tensors by name or does not give logits.

    The module is run once on the probe. One that has an adapter among its parts, as a copy with a new head does, takes
    the packed tensor already. What torch refuses (a shape, a type, a device) is said when the module is asked, and not
    here; any other error is one of the module's own code, and is raised.
    """
    if isinstance(module, BlackBox):
        return module
    if any(isinstance(part, Adapter) for part in module.modules()):
        inputs = None
    if any(is_lazy(weight) for weight in module.parameters()):
        return module  # to run it would draw its first weights
    cuda = [probe.device] if probe.device.type == "cuda" else []
    with torch.no_grad(), torch.random.fork_rng(devices=cuda), LastHead() as seen:
        try:
            returned = _run(module, inputs, probe)
        except Exception as error:
            if inputs is not None:
                raise ModelError(f"The module cannot be run with {', '.join(inputs.names)}: {error}") from error
            if isinstance(error, RuntimeError) or _is_torchs(error):
                return module
            raise ModelError(
                f"The module fails on an input of shape {tuple(probe.shape[1:])}, in its own code: "
                f"{type(error).__name__}: {error} ({_where(error)})"
            ) from error
    output = find_output(returned, seen, len(probe), classes)
    return module if inputs is None and output.plain else Adapter(module, inputs, output)


def _is_torchs(error: Exception) -> bool:
    """Whether torch refuses a shape by a ValueError, as its functions for pictures do."""
    last = Path(extract_tb(error.__traceback__)[-1].filename)
    return isinstance(error, ValueError) and last.is_relative_to(Path(torch.__file__).parent)


def _where(error: Exception) -> str:
    """The line of code that failed."""
    last = extract_tb(error.__traceback__)[-1]
    return f"{last.filename}, line {last.lineno}"


def _run(module: nn.Module, inputs: Nest | None, x: torch.Tensor) -> Any:
    # A trace knows the parts of the module, but not the module; its own hooks, which are rare, need the full call.
    run = module if module._forward_hooks or module._forward_pre_hooks else module.forward
    if inputs is None:
        return run(x)
    weight = next((p for p in module.parameters() if p.is_floating_point()), None)
    dtype = x.dtype if weight is None else weight.dtype
    parts = inputs.unpack(x)
    real = {leaf.name: parts[leaf.name].to(dtype) for leaf in inputs.leaves if leaf.kind == "real"}
    return run(**{**parts, **real})
