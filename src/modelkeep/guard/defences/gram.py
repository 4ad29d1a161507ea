"""G Gᵀ: all that MAD's angle needs of a surrogate's gradients.

A layer's part of G is made of what went into it and of what comes back to its output. One pass forth and back on C
copies of a query, the k-th of which asks for class k, gives both for all layers and many queries at once.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from modelkeep.errors import ModelError
from modelkeep.model import Model

COPIES = 256  # at most so many inputs per pass


def gradients_gram(surrogate: Model, x: torch.Tensor) -> NDArray[np.float64]:
    """G Gᵀ `(n, classes, classes)` of the queries `x: (n, *input_shape)`, with G = ∇_w log f(x; w) of each.

    >>> surrogate = Model(nn.Linear(1, 2, bias=False), input_shape=(1,), classes=2, bounds=None)
    >>> nn.init.zeros_(surrogate.module.weight).tolist()
    [[0.0], [0.0]]
    >>> gradients_gram(surrogate, torch.tensor([[2.0]]))  # each gradient is (e_k − f) x, and f is uniform
    array([[[ 2., -2.],
            [-2.,  2.]]])
    """
    x = surrogate.checked(x)
    surrogate.require_eval()
    layers = [part for part in surrogate.module.modules() if next(part.parameters(recurse=False), None) is not None]
    size = max(1, COPIES // len(surrogate.classes))
    known = all(map(_known, layers))
    grams = []
    for queries in torch.split(x, size):
        with torch.enable_grad():
            found = _by_layers(surrogate, layers, queries) if known else None
            if found is None:
                found = torch.stack([_by_weights(surrogate, query) for query in queries])
        grams.append(found)
    gram = torch.cat(grams)
    if not gram.isfinite().all():
        raise ModelError("The surrogate's gradients are not finite. Are its weights damaged?")
    answer: NDArray[np.float64] = gram.cpu().numpy()
    return answer


def _by_weights(surrogate: Model, query: torch.Tensor) -> torch.Tensor:
    """The Gram matrix of one query by a pass back per class: slow, and for any network."""
    weights = {name: weight.detach().requires_grad_() for name, weight in surrogate.module.named_parameters()}
    logits = torch.func.functional_call(surrogate.module, weights, (surrogate.preprocess(query[None]),))
    gradients = [
        torch.autograd.grad(log, tuple(weights.values()), retain_graph=True, materialize_grads=True)
        for log in logits.log_softmax(dim=1)[0]
    ]
    rows = torch.stack([torch.cat([part.flatten() for part in parts]) for parts in gradients]).double()
    return rows @ rows.T


def _by_layers(surrogate: Model, layers: list[nn.Module], queries: torch.Tensor) -> torch.Tensor | None:
    """The Gram matrices of some queries; None where a layer is called several times, not at all, or on sequences."""
    classes = len(surrogate.classes)
    inputs: dict[nn.Module, torch.Tensor] = {}
    outputs: dict[nn.Module, torch.Tensor] = {}
    calls = 0

    def keep(layer: nn.Module, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        inputs[layer] = given[0].detach()[::classes].clone()
        outputs[layer] = output
        return output.clone()  # what follows may overwrite it in place

    hooks = [layer.register_forward_hook(keep) for layer in layers]
    try:
        copies = surrogate.preprocess(queries.repeat_interleave(classes, dim=0)).requires_grad_()
        logs = surrogate.module(copies).log_softmax(dim=1)
    finally:
        for hook in hooks:
            hook.remove()
    sequences = any(isinstance(layer, nn.Linear) and given.ndim != 2 for layer, given in inputs.items())
    if sequences or not calls == len(outputs) == len(layers):
        return None
    asked = torch.arange(classes, device=logs.device).repeat(len(queries))
    total = logs[torch.arange(len(logs), device=logs.device), asked].sum()
    gram = torch.zeros(len(queries), classes, classes, dtype=torch.float64, device=logs.device)
    for layer, back in zip(outputs, torch.autograd.grad(total, tuple(outputs.values())), strict=True):
        gram += _part(layer, inputs[layer], back.reshape(len(queries), classes, *back.shape[1:]))
    return gram


def _known(layer: nn.Module) -> bool:
    """Whether `_part` has a rule for the layer."""
    if type(layer) is nn.Conv2d:
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return type(layer) is nn.Linear or (isinstance(layer, _BatchNorm) and layer.running_mean is not None)


def _part(layer: nn.Module, given: torch.Tensor, back: torch.Tensor) -> torch.Tensor:
    """A layer's part of G Gᵀ from its inputs `given: (n, ...)` and the gradients `back: (n, classes, ...)`."""
    if isinstance(layer, nn.Linear):  # each gradient is back ⊗ given, and back for the bias
        lengths = given.double().square().sum(dim=1) + (layer.bias is not None)
        return _gram(back) * lengths[:, None, None]
    places = back.flatten(3) if back.ndim > 3 else back[..., None]  # (n, classes, channels, places)
    if isinstance(layer, nn.Conv2d):
        assert not isinstance(layer.padding, str)
        patches = nn.functional.unfold(given, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
        rows = places.flatten(1, 2) @ patches.mT
        part = _gram(rows.reshape(*places.shape[:3], -1))
    else:
        assert isinstance(layer, _BatchNorm)
        assert layer.running_mean is not None and layer.running_var is not None  # noqa: PT018
        values = given.flatten(2) if given.ndim > 2 else given[..., None]
        centred = (values - layer.running_mean[:, None]) * (layer.running_var[:, None] + layer.eps).rsqrt()
        part = _gram((places * centred[:, None]).sum(dim=3))
    return part + _gram(places.sum(dim=3)) if layer.bias is not None else part


def _gram(rows: torch.Tensor) -> torch.Tensor:
    """The products of all pairs of rows, `(n, classes, ...)` to `(n, classes, classes)`, in double precision."""
    flat = rows.flatten(2).double()
    return flat @ flat.mT
