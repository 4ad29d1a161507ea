"""G Gᵀ: all that MAD's angle needs of a surrogate's gradients.

A layer's part of G is made of what went into it and of what comes back to its output. One pass forth and back on C
copies of the query, the k-th of which asks for class k, gives both for all layers.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from modelkeep.core.errors import ModelError
from modelkeep.core.model import Model


def gradients_gram(surrogate: Model, x: torch.Tensor) -> NDArray[np.float64]:
    """G Gᵀ `(classes, classes)` of one query `x: (1, *input_shape)`, with G = ∇_w log f(x; w).

    >>> surrogate = Model(nn.Linear(1, 2, bias=False), input_shape=(1,), classes=2, bounds=None)
    >>> nn.init.zeros_(surrogate.module.weight).tolist()
    [[0.0], [0.0]]
    >>> gradients_gram(surrogate, torch.tensor([[2.0]]))  # each gradient is (e_k − f) x, and f is uniform
    array([[ 2., -2.],
           [-2.,  2.]])
    """
    x = surrogate.check_inputs(x)
    surrogate.require_eval()
    layers = [part for part in surrogate.module.modules() if next(part.parameters(recurse=False), None) is not None]
    with torch.enable_grad():
        gram = _by_layers(surrogate, layers, x) if all(map(_has_rule, layers)) else None
        if gram is None:
            gram = _by_weights(surrogate, x)
    if not gram.isfinite().all():
        raise ModelError("The surrogate's gradients are not finite. Are its weights damaged?")
    answer: NDArray[np.float64] = gram.cpu().numpy()
    return answer


def _by_weights(surrogate: Model, query: torch.Tensor) -> torch.Tensor:
    """The Gram matrix by a pass back per class: slow, and for any network."""
    weights = {name: weight.detach().requires_grad_() for name, weight in surrogate.module.named_parameters()}
    logits = torch.func.functional_call(surrogate.module, weights, (surrogate.preprocess(query),))
    gradients = [
        torch.autograd.grad(log, tuple(weights.values()), retain_graph=True, materialize_grads=True)
        for log in logits.log_softmax(dim=1)[0]
    ]
    rows = torch.stack([torch.cat([part.flatten() for part in parts]) for parts in gradients]).double()
    return rows @ rows.T


def _by_layers(surrogate: Model, layers: list[nn.Module], query: torch.Tensor) -> torch.Tensor | None:
    """The sum of the layers' parts; None where a layer is called several times, not at all, or on sequences."""
    inputs: dict[nn.Module, torch.Tensor] = {}
    outputs: dict[nn.Module, torch.Tensor] = {}
    calls = 0

    def keep(layer: nn.Module, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        inputs[layer] = given[0][:1].detach().clone()
        outputs[layer] = output
        return output.clone()  # what follows may overwrite it in place

    hooks = [layer.register_forward_hook(keep) for layer in layers]
    try:
        copies = surrogate.preprocess(query.repeat_interleave(len(surrogate.classes), dim=0)).requires_grad_()
        logs = surrogate.module(copies).log_softmax(dim=1)
    finally:
        for hook in hooks:
            hook.remove()
    sequences = any(isinstance(layer, nn.Linear) and given.ndim != 2 for layer, given in inputs.items())
    if sequences or not calls == len(outputs) == len(layers):
        return None
    gram = torch.zeros(len(logs), len(logs), dtype=torch.float64, device=logs.device)
    for layer, back in zip(outputs, torch.autograd.grad(logs.trace(), tuple(outputs.values())), strict=True):
        gram += _part(layer, inputs[layer], back)
    return gram


def _has_rule(layer: nn.Module) -> bool:
    """Whether `_part` has a rule for the layer."""
    if type(layer) is nn.Conv2d:
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return type(layer) is nn.Linear or (isinstance(layer, _BatchNorm) and layer.running_mean is not None)


def _part(layer: nn.Module, given: torch.Tensor, back: torch.Tensor) -> torch.Tensor:
    """A layer's part of G Gᵀ from its input `given: (1, ...)` and its output's gradients `back: (classes, ...)`."""
    if isinstance(layer, nn.Linear):  # each gradient is back ⊗ given, and back for the bias
        return _gram(back) * (given.double().square().sum() + (layer.bias is not None))
    places = back.flatten(2) if back.ndim > 2 else back[..., None]  # (classes, channels, places)
    if isinstance(layer, nn.Conv2d):
        assert not isinstance(layer.padding, str)
        patches = nn.functional.unfold(given, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
        part = _gram(places @ patches[0].T)
    else:
        assert isinstance(layer, _BatchNorm)
        assert layer.running_mean is not None
        assert layer.running_var is not None
        values = given.flatten(2) if given.ndim > 2 else given[..., None]
        centred = (values - layer.running_mean[:, None]) * (layer.running_var[:, None] + layer.eps).rsqrt()
        part = _gram((places * centred).sum(dim=2))
    return part + _gram(places.sum(dim=2)) if layer.bias is not None else part


def _gram(rows: torch.Tensor) -> torch.Tensor:
    """The products of all pairs of rows, `(classes, ...)` to `(classes, classes)`, in double precision."""
    flat = rows.flatten(1).double()
    return flat @ flat.T
