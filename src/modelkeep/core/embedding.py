"""The embedding: the layer that token ids enter, where a text becomes numbers that have gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from modelkeep.core.adapter import Adapter
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.nest import Leaf, Nest

if TYPE_CHECKING:
    from modelkeep.core.model import Model

EMBEDDING = "embedding"
"""The leaf of a model at its embedding that holds the embedded tokens."""


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


class AtEmbedding(Adapter):
    """The owner's module with the output of its embedding given, as the last columns of the packed input."""

    def __init__(self, adapter: Adapter, place: str, nest: Nest) -> None:
        super().__init__(adapter.adapted_owner, adapter.adapted_inputs, adapter.adapted_output)
        self.adapted_place = place
        self.adapted_columns = nest.columns(EMBEDDING)
        self.adapted_shape = nest.leaf(EMBEDDING).shape

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits `(n, classes)` for packed tokens and their embedding."""
        layer = self.adapted_owner.get_submodule(self.adapted_place)
        weight: torch.Tensor = layer.weight  # type: ignore[assignment]
        value = x[:, self.adapted_columns].reshape(-1, *self.adapted_shape).to(weight.dtype)
        handle = layer.register_forward_hook(lambda *_: value)
        try:
            return super().forward(x[:, : self.adapted_columns.start])
        finally:
            handle.remove()


def at_embedding(model: Model) -> Model:
    """The model as a function of its embedded tokens: its nest has one more real leaf `embedding` of shape `(L, d)`.

    It shares the weights. At the embedding of the ids it gives exactly what the model gives; ball attacks and input
    gradients work there. `embed` makes its data.
    """
    leaf, place = token_leaf(model, "The embedding"), find_embedding(model)
    assert model.nest is not None
    assert isinstance(model.module, Adapter)
    width = int(model.module.get_parameter(f"{place}.weight").shape[1])
    nest = Nest((*model.nest.leaves, Leaf(EMBEDDING, (*leaf.shape, width))))
    module = AtEmbedding(model.module, place, nest)
    return type(model)(module, inputs=nest, classes=model.classes, device=model.device)


def embed(model: Model, data: Data) -> Data:
    """The data with the embedding of each token beside it, for `at_embedding(model)`."""
    model.require_fit(data)
    leaf, layer = token_leaf(model, "The embedding"), model.module.get_submodule(find_embedding(model))
    assert model.nest is not None
    x = model.check_inputs(data.x)
    with torch.no_grad():
        found = layer(model.nest.unpack(x)[leaf.name])
    whole = torch.cat([x.cpu().float(), found.flatten(1).cpu().float()], dim=1)
    nest = Nest((*model.nest.leaves, Leaf(EMBEDDING, tuple(found.shape[1:]))))
    return replace(data, x=whole, nest=nest, features=None, bounds=None)


def free_values(nest: Nest, x: torch.Tensor) -> torch.Tensor | None:
    """True where a ball attack may change packed inputs `(n, width)`: real leaves, but no padding; None: everywhere."""
    free = nest.free()
    if free is None:
        return None
    allowed = free.to(x.device).expand(len(x), -1).clone()
    if EMBEDDING not in nest.names or nest.tokens is None:
        return allowed
    for mask in nest.leaves:
        if mask.kind == "mask" and mask.shape == nest.tokens.shape:
            kept = x[:, nest.columns(mask.name)] == 1
            depth = nest.leaf(EMBEDDING).width // mask.width
            allowed[:, nest.columns(EMBEDDING)] &= kept.repeat_interleave(depth, dim=1)
    return allowed
