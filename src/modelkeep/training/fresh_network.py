"""The same network with fresh weights: a shadow, a surrogate, or where a misinformation model starts."""

from __future__ import annotations

import copy

import torch

from modelkeep.core.errors import ModelError
from modelkeep.core.model import Model


def copy_untrained(model: Model, seed: int) -> Model:
    """A copy of `model` whose weights are drawn anew, each layer by its own `reset_parameters`.

    >>> from torch import nn
    >>> model = Model(nn.Linear(4, 3), input_shape=(4,), classes=3)
    >>> one, two = copy_untrained(model, seed=0), copy_untrained(model, seed=0)
    >>> one.fingerprint() == two.fingerprint() != model.fingerprint()
    True
    """
    made = copy.deepcopy(model)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        for name, part in made.module.named_modules():
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()
            elif any(True for _ in part.parameters(recurse=False)):
                raise ModelError(
                    f"The layer '{name}' ({type(part).__name__}) has weights but no reset_parameters, so they cannot "
                    "be drawn anew. Build the network yourself and give it instead."
                )
    for parameter in made.module.parameters():
        parameter.requires_grad_(True)  # the owner may have frozen some
    return made
