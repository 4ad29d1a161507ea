"""The part of a network that is trained: its modes, its gradients, its tensors; the rest stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn

from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.training.recipe import Recipe


@contextmanager
def training_part(model: Model, recipe: Recipe) -> Iterator[list[nn.Parameter]]:
    """Train mode for the part of the module that the recipe trains; afterwards everything as a model should be."""
    module = model.module
    wanted = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    names = [name for name, _ in module.named_parameters()]
    for part in recipe.trainable:
        if not any(name == part or name.startswith(f"{part}.") for name in names):
            raise InputError(f"The recipe trains '{part}', but no parameter has that name. There are: {names}.")
    if model.card.guarantee is not None:
        model.card = replace(model.card, guarantee=None)  # from now on the weights depend on other data as well
    try:
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(parameter.requires_grad and recipe.trains(name))
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not trained:
            raise InputError("The model has no parameter that requires a gradient: there is nothing to train.")
        train_mode(module, recipe)
        # What the caller draws afterwards from torch's global generator does not depend on us.
        with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
            yield trained
    finally:
        module.eval()
        for parameter, flag in wanted:
            parameter.requires_grad_(flag)
            parameter.grad = None


def train_mode(module: nn.Module, recipe: Recipe) -> None:
    """Train mode, but for parts that are kept as they are: batch norm there keeps its statistics."""
    module.train()
    for name, part in module.named_modules():
        if not recipe.trains(name) and any(True for _ in part.buffers(recurse=False)):
            part.training = False


def tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Every parameter and buffer, also those that `state_dict` leaves out; each once."""
    return {name: tensor.detach() for name, tensor in [*module.named_parameters(), *module.named_buffers()]}


def load_into(module: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Put the values that `tensors_of` gave back into the module."""
    for name, tensor in tensors_of(module).items():
        tensor.copy_(tensors[name])
