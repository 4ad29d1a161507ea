"""Reading: an owner's network as layers that can be run on shares."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from modelkeep.core.errors import InputError
from modelkeep.encrypt.polynomial import Polynomial
from modelkeep.encrypt.shares.network import Layer

Values = list[tuple[Tensor, Tensor]]
"""The weight (inputs, outputs) and the bias (outputs,) of each layer."""


def read_layers(module: nn.Module) -> tuple[list[Layer], Values]:
    """The dense layers of a sequence of `Linear` and activations, and their values.

    An activation is a ReLU or a `Polynomial`, `gain (x + shift)^2 + offset`. The owner folds a polynomial into the
    layers around it, so that only a square is left to compute.
    """
    layers: list[Layer] = []
    values: Values = []
    gain, offset = 1.0, 0.0  # of the last polynomial; the next layer takes them in
    for name, part in _leaves(module):
        if isinstance(part, nn.Linear):
            if layers and layers[-1].activation == "none":
                raise InputError(f"'{name}' follows another linear layer. Join the two, or put an activation between.")
            weight, bias = _read_linear(part)
            layers.append(Layer(part.in_features, part.out_features, "none"))
            values.append((gain * weight, bias + offset * weight.sum(dim=0)))
            gain, offset = 1.0, 0.0
        elif not layers or layers[-1].activation != "none":
            raise InputError(f"'{name}' ({type(part).__name__}) is an activation that follows no linear layer.")
        elif isinstance(part, nn.ReLU):
            layers[-1] = Layer(layers[-1].inputs, layers[-1].outputs, "relu")
        elif isinstance(part, Polynomial):
            gain, offset = part.gain.item(), part.offset.item()
            values[-1] = (values[-1][0], values[-1][1] + part.shift.detach())
            layers[-1] = Layer(layers[-1].inputs, layers[-1].outputs, "square")
        else:
            raise InputError(
                f"'{name}' ({type(part).__name__}) cannot be run on shares. Layers that can: Linear, ReLU, Polynomial."
            )
    if not layers or layers[-1].activation != "none":
        raise InputError("A network on shares ends in a linear layer. Take the last activation away.")
    return layers, values


def _leaves(module: nn.Module) -> list[tuple[str, nn.Module]]:
    if not isinstance(module, nn.Sequential):
        raise InputError(f"A network on shares is an nn.Sequential. Got {type(module).__name__}.")
    found = []
    for name, part in module.named_children():
        if isinstance(part, nn.Sequential):
            found += [(f"{name}.{inner}", leaf) for inner, leaf in _leaves(part)]
        elif not isinstance(part, (nn.Flatten, nn.Identity, nn.Dropout)):
            found.append((name, part))
    return found


def _read_linear(part: nn.Linear) -> tuple[Tensor, Tensor]:
    weight = part.weight.detach().T.to(torch.float64)
    bias = torch.zeros(part.out_features) if part.bias is None else part.bias.detach()
    return weight, bias.to(torch.float64)
