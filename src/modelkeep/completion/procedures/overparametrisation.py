"""T3: two wider layers in the place of each missing one, folded back into one where they are linear."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self, TypeGuard

import torch
from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from modelkeep.completion.initialisation import seed_draws
from modelkeep.completion.part import Part
from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures.procedure import Procedure, RetrainedModel, retrain
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.training.batches import derive_seed

Between = Literal["linear", "relu"]
Layer = nn.Linear | nn.Conv2d


@declare("procedure", "t3", access="weights", paper="Martic2018, section 3.3")
class Overparametrisation(Procedure):
    """T3: put two wider layers in the place of each missing nn.Linear and nn.Conv2d, and train everything.

    With nothing `between` the two, the model that comes out has its old shape and the same answers; with a ReLU it
    stays as it was trained. Other missing layers begin anew, as in T1.
    """

    width: int = setting(
        "The outputs between the two layers, as a multiple of the missing layer's.", default=4, at_least=1
    )
    between: Between = setting("What stands between the two layers.", default="linear", choices=("linear", "relu"))
    title = "over-parametrised"

    @property
    def name(self) -> str:
        """Such as "T3 linear 4x"."""
        return f"T3 {self.between} {self.width}x"

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        """Without and with a ReLU."""
        return cls(), cls(between="relu")

    def __call__(self, problem: Problem, *, seed: int = 0, checkpoint: Path | None = None) -> RetrainedModel:
        model = problem.initial_model(seed)
        pairs = overparametrise(model.module, problem.part, width=self.width, between=self.between, seed=seed)
        found = retrain(problem, model, seed=seed, checkpoint=checkpoint)
        if self.between == "linear":
            fold(model.module, pairs)
            return found
        # The architecture no longer builds such a network.
        card = replace(model.card, architecture=None, arguments={})
        return RetrainedModel(found.curve, Model.from_card(model.module, card, model.device))


Pairs = dict[nn.Module, Layer]
"""Two layers in a row, and the one in whose place they stand."""


def overparametrise(module: nn.Module, part: Part, *, width: int = 4, between: Between = "linear", seed: int) -> Pairs:
    """Put two layers in the place of each one that is missing as a whole, in place; what `fold` needs to undo it.

    The first has the variance of He2015 for what comes after it, the second torch's own: the two together have the
    variance of the one layer, 1 / (3 fan_in) per weight.
    """
    missing = set(part.parameters(module))
    pairs: Pairs = {}
    for name, layer in module.named_modules():
        prefix = f"{name}." if name else ""
        own = {prefix + found for found, _ in layer.named_parameters(recurse=False)}
        if _plain(layer) and own <= missing:
            with seed_draws(derive_seed(seed, f"pair {name}"), layer.weight.device):
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
    """Whether it is a linear layer or a convolution, or differs from one only in how it is initialised.

    Attention's own linear layer is excluded: attention reads its weight and never calls the layer.
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
