"""T3: two layers in the place of each missing one, wider than it, which are folded back where they are linear."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, TypeGuard

import torch
from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from modelkeep.completion.initialisation import drawing_from
from modelkeep.completion.part import Part
from modelkeep.completion.problem import Problem
from modelkeep.completion.retraining import Retrained, curve_of
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.training.batches import derive_seed

Between = Literal["linear", "relu"]
Layer = nn.Linear | nn.Conv2d


@dataclass(frozen=True)
class Overparametrised:
    """T3: each missing `nn.Linear` and `nn.Conv2d` becomes two, with `width` times its outputs between them.

    Everything is trained, as in T1. With nothing `between` the two, the model that comes out has its old shape and the
    same answers; with a ReLU it stays as it was trained. Other missing layers begin anew, as in T1.
    """

    width: int = 4
    between: Between = "linear"

    title: ClassVar[str] = "over-parametrised"

    def __post_init__(self) -> None:
        if self.width < 1:
            raise bad_parameter("Overparametrised", "width", "at least 1", self.width)
        if self.between not in ("linear", "relu"):
            raise bad_parameter("Overparametrised", "between", "'linear' or 'relu'", self.between)

    @property
    def name(self) -> str:
        """Such as "T3 linear 4x"."""
        return f"T3 {self.between} {self.width}x"

    def __call__(self, problem: Problem, *, seed: int, checkpoint: Path | None = None) -> Retrained:
        model = problem.broken(seed)
        pairs = overparametrised(model.module, problem.part, width=self.width, between=self.between, seed=seed)
        curve = curve_of(model, problem.data, problem.held_out, problem.recipe, seed=seed, checkpoint=checkpoint)
        if self.between == "linear":
            fold(model.module, pairs)
            return Retrained(curve, model)
        # It is no longer what its architecture builds.
        card = replace(model.card, architecture=None, arguments={})
        return Retrained(curve, Model.from_card(model.module, card, model.device))


Pairs = dict[nn.Module, Layer]
"""Two layers in a row, and the one in whose place they stand."""


def overparametrised(module: nn.Module, part: Part, *, width: int = 4, between: Between = "linear", seed: int) -> Pairs:
    """Put two layers in the place of each one that is missing as a whole, in place; what `fold` needs to undo it.

    The first has He et al.'s variance for what comes after it, the second torch's own: the two together have the
    variance of the one layer, 1 / (3 fan_in) per weight.
    """
    missing = set(part.parameters(module))
    pairs: Pairs = {}
    for name, layer in module.named_modules():
        prefix = f"{name}." if name else ""
        own = {prefix + found for found, _ in layer.named_parameters(recurse=False)}
        if _plain(layer) and own <= missing:
            with drawing_from(derive_seed(seed, f"pair {name}"), layer.weight.device):
                pairs[_pair(layer, width * layer.weight.shape[0], between)] = layer
    if not pairs or part.share < 1 or module in pairs.values():
        raise InputError(
            f"The part '{part.name}' has no nn.Linear or nn.Conv2d within the network that is missing as a whole, so "
            "there is nothing to over-parametrise. Use another procedure for it."
        )
    _exchange(module, {layer: pair for pair, layer in pairs.items()})
    return pairs


def fold(module: nn.Module, pairs: Pairs) -> None:
    """Put one layer that computes the same back in the place of each linear pair."""
    for pair, layer in pairs.items():
        first, second = pair.children()
        assert isinstance(first, nn.Linear | nn.Conv2d)
        assert isinstance(second, nn.Linear | nn.Conv2d)
        groups = layer.groups if isinstance(layer, nn.Conv2d) else 1
        product = torch.bmm(_by_group(second, groups), _by_group(first, groups))
        with torch.no_grad():
            layer.weight.copy_(product.view_as(layer.weight))
            if layer.bias is not None and second.bias is not None:
                layer.bias.copy_(second.bias)
    _exchange(module, dict(pairs))


def _plain(layer: nn.Module) -> TypeGuard[Layer]:
    """Whether it is a linear layer or a convolution, or differs from one only in how it begins.

    Not that of attention, which takes the weight and never calls the layer.
    """
    if isinstance(layer, NonDynamicallyQuantizableLinear):
        return False
    return type(layer).forward in (nn.Linear.forward, nn.Conv2d.forward)


def _pair(layer: Layer, hidden: int, between: Between) -> nn.Sequential:
    """A wider copy of the layer, and one that brings it back to its outputs. Linear ones need no bias between them."""
    weight, bias = layer.weight.detach(), layer.bias is not None
    first = deepcopy(layer)
    second: Layer
    first.weight = nn.Parameter(weight.new_empty(hidden, *weight.shape[1:]))
    first.bias = nn.Parameter(weight.new_zeros(hidden)) if between == "relu" else None
    if isinstance(first, nn.Linear):
        second = nn.Linear(hidden, first.out_features, bias)
        first.out_features = hidden
    else:
        second = nn.Conv2d(hidden, first.out_channels, 1, groups=first.groups, bias=bias)
        first.out_channels = hidden
    second = second.to(weight.device, weight.dtype)
    nn.init.kaiming_uniform_(first.weight, nonlinearity=between)
    return nn.Sequential(first, second) if between == "linear" else nn.Sequential(first, nn.ReLU(), second)


def _by_group(layer: Layer, groups: int) -> torch.Tensor:
    return layer.weight.detach().reshape(groups, layer.weight.shape[0] // groups, -1)


def _exchange(module: nn.Module, places: dict[nn.Module, nn.Module]) -> None:
    """Put other modules in the places of some, wherever they stand."""
    for parent in list(module.modules()):
        for name, child in parent._modules.items():
            if child in places:
                parent.add_module(name, places[child].train(child.training))
