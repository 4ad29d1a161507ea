"""The embedding: the layer that token ids enter, where a text becomes numbers that have gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.core.nest import Leaf


def token_leaf(model: Model, who: str) -> Leaf:
    """The leaf of token ids that the model takes; `who` asks for it."""
    leaf = None if model.nest is None else model.nest.tokens
    if leaf is None:
        raise InputError(
            f"{who} works on the words of a text, and this model takes none: it has no leaf of token ids. For pictures "
            "and tables, choose another method; for a text model, give Model(…, inputs=nest_of(tokenizer))."
        )
    return leaf


def find_embedding(model: Model) -> str:
    """The name of the nn.Embedding whose input is the token ids, found on the probe."""
    leaf = token_leaf(model, "The embedding")
    assert model.nest is not None
    probe = model.probe()
    ids = model.nest.unpack(probe)[leaf.name]
    found: list[str] = []

    def look(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(_: nn.Module, inputs: Any, __: Any) -> None:
            if isinstance(inputs[0], torch.Tensor) and inputs[0].shape == ids.shape and torch.equal(inputs[0], ids):
                found.append(name)

        return hook

    layers = [(name, part) for name, part in model.module.named_modules() if isinstance(part, nn.Embedding)]
    handles = [part.register_forward_hook(look(name)) for name, part in layers]
    try:
        with model.frozen(seed=0), torch.no_grad():
            model.forward(probe)
    finally:
        for handle in handles:
            handle.remove()
    if len(set(found)) != 1:
        raise InputError(
            f"The token ids should enter one nn.Embedding of the network. They enter {', '.join(found) or 'none'}. "
            "Name the slice yourself: `model.slices()` lists them."
        )
    return found[0]
