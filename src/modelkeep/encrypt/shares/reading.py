"""Reading: an owner's network as layers that can be run on shares."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from modelkeep.core.errors import InputError
from modelkeep.encrypt.shares.network import Layer

Values = list[tuple[Tensor, Tensor]]
"""The weight (inputs, outputs) and the bias (outputs,) of each layer."""


def read_layers(module: nn.Module) -> tuple[list[Layer], Values]:
    """The dense layers of a sequence of `Linear` and activations, and their values.

    An activation is a ReLU or a polynomial of degree 2 (a module with `coefficients`, the constant first). The owner
    folds a polynomial into the layers around it, so that only a square is left to compute:

        c0 + c1 x + c2 x^2 = c2 (x + c1 / 2 c2)^2 + c0 - c1^2 / 4 c2.
    """
    layers: list[Layer] = []
    values: Values = []
    scale, constant = 1.0, 0.0  # of the last polynomial; the next layer takes them in
    for name, part in _leaves(module):
        if isinstance(part, nn.Linear):
            if layers and layers[-1].activation == "none":
                raise InputError(f"'{name}' follows another linear layer. Join the two, or put an activation between.")
            weight, bias = _read_linear(part)
            layers.append(Layer(part.in_features, part.out_features, "none"))
            values.append((scale * weight, bias + constant * weight.sum(dim=0)))
            scale, constant = 1.0, 0.0
        elif not layers or layers[-1].activation != "none":
            raise InputError(f"'{name}' ({type(part).__name__}) is an activation that follows no linear layer.")
        elif isinstance(part, nn.ReLU):
            layers[-1] = Layer(layers[-1].inputs, layers[-1].outputs, "relu")
        else:
            scale, shift, constant = _complete_square(name, part)
            values[-1] = (values[-1][0], values[-1][1] + shift)
            layers[-1] = Layer(layers[-1].inputs, layers[-1].outputs, "square")
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


def _complete_square(name: str, part: nn.Module) -> tuple[float, float, float]:
    """Scale, shift and constant of a polynomial of degree 2 as scale (x + shift)^2 + constant."""
    coefficients = getattr(part, "coefficients", None)
    if not isinstance(coefficients, (Tensor, Sequence)) or len(coefficients) != 3 or float(coefficients[2]) == 0:
        raise InputError(
            f"'{name}' ({type(part).__name__}) cannot be run on shares. Layers that can: Linear, ReLU, and polynomials "
            "of degree 2 (with `coefficients`)."
        )
    c0, c1, c2 = (float(each) for each in coefficients)
    return c2, c1 / (2 * c2), c0 - c1**2 / (4 * c2)
