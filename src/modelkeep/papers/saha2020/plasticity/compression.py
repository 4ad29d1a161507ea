"""Smaller copies of a trained network: fewer bits per weight, or fewer weights (Saha2020, section 5.2.2)."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn

from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model


def quantise(model: Model, bits: int) -> Model:
    """A copy whose weights are, layer by layer, the nearest of `2**bits - 1` evenly spaced values around 0."""
    if bits < 2:
        raise bad_parameter("quantised", "bits", "at least 2", bits)
    copy = Model.from_card(deepcopy(model.module), model.card, model.device)
    for weight in _weights(copy):
        step = weight.abs().max().clamp_min(torch.finfo(weight.dtype).tiny) / (2 ** (bits - 1) - 1)
        weight.copy_((weight / step).round() * step)
    return copy


def prune(model: Model, share: float) -> Model:
    """A copy without that share of its weights: the smallest of all layers together are set to 0."""
    if not 0 <= share < 1:
        raise bad_parameter("pruned", "share", "a number from 0 to below 1", share)
    copy = Model.from_card(deepcopy(model.module), model.card, model.device)
    sizes = torch.cat([weight.abs().flatten() for weight in _weights(copy)])
    count = round(share * len(sizes))
    if count:
        smallest = sizes.kthvalue(count).values
        for weight in _weights(copy):
            weight.masked_fill_(weight.abs() <= smallest, 0)
    return copy


def _weights(model: Model) -> list[torch.Tensor]:
    """What is compressed: the weights of dense and convolutional layers, without their biases."""
    return [part.weight.data for part in model.module.modules() if isinstance(part, nn.Linear | nn.Conv2d)]
